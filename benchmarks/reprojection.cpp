// Jacobians of reprojection errors by hand, for benchmarks/by_hand.py: one of its peers.
#include <cmath>
extern "C" void jacobians(long n, const double* cams, const double* pts, const double* ws, const double* feats,
  const long* ci, const long* pi, double* out /* n x 2 x 15 */) {
  for (long k = 0; k < n; k++) {
    const double* c = cams + 11 * ci[k]; const double* X = pts + 3 * pi[k]; double w = ws[k];
    double u[3] = {X[0]-c[3], X[1]-c[4], X[2]-c[5]};
    double s2 = c[0]*c[0]+c[1]*c[1]+c[2]*c[2];
    double R[9]; double dR[3][3]; // dR[a] = d(Xc)/d rot_a
    double y[3];
    if (s2 > 0) {
      double th = std::sqrt(s2), co = std::cos(th), si = std::sin(th), it = 1/th;
      double a[3] = {c[0]*it, c[1]*it, c[2]*it};
      double oc = 1-co;
      R[0]=co+oc*a[0]*a[0]; R[1]=oc*a[0]*a[1]-si*a[2]; R[2]=oc*a[0]*a[2]+si*a[1];
      R[3]=oc*a[0]*a[1]+si*a[2]; R[4]=co+oc*a[1]*a[1]; R[5]=oc*a[1]*a[2]-si*a[0];
      R[6]=oc*a[0]*a[2]-si*a[1]; R[7]=oc*a[1]*a[2]+si*a[0]; R[8]=co+oc*a[2]*a[2];
      double d = a[0]*u[0]+a[1]*u[1]+a[2]*u[2];
      double x[3] = {a[1]*u[2]-a[2]*u[1], a[2]*u[0]-a[0]*u[2], a[0]*u[1]-a[1]*u[0]};
      for (int i = 0; i < 3; i++) y[i] = co*u[i] + si*x[i] + oc*d*a[i];
      for (int j = 0; j < 3; j++) {
        double dth = a[j];
        double da[3]; for (int i = 0; i < 3; i++) da[i] = ((i==j) - a[i]*a[j])*it;
        double dd = da[0]*u[0]+da[1]*u[1]+da[2]*u[2];
        double dx[3] = {da[1]*u[2]-da[2]*u[1], da[2]*u[0]-da[0]*u[2], da[0]*u[1]-da[1]*u[0]};
        for (int i = 0; i < 3; i++)
          dR[j][i] = dth*(-si*u[i] + co*x[i] + si*d*a[i]) + si*dx[i] + oc*(dd*a[i]+d*da[i]);
      }
    } else {
      for (int i = 0; i < 9; i++) R[i] = (i%4==0);
      R[1]=-c[2];R[2]=c[1];R[3]=c[2];R[5]=-c[0];R[6]=-c[1];R[7]=c[0];
      for (int i = 0; i < 3; i++) y[i] = R[3*i]*u[0]+R[3*i+1]*u[1]+R[3*i+2]*u[2];
      dR[0][0]=0;dR[0][1]=-u[2];dR[0][2]=u[1]; dR[1][0]=u[2];dR[1][1]=0;dR[1][2]=-u[0]; dR[2][0]=-u[1];dR[2][1]=u[0];dR[2][2]=0;
    }
    double iz = 1/y[2], p0 = y[0]*iz, p1 = y[1]*iz;
    double r2 = p0*p0+p1*p1, L = 1 + c[9]*r2 + c[10]*r2*r2, dL = c[9]+2*c[10]*r2;
    double f = c[6];
    // d(q)/d(p): q = f*p*L
    double q00 = f*(L + 2*p0*p0*dL), q01 = f*2*p0*p1*dL, q11 = f*(L+2*p1*p1*dL);
    double* o = out + 30*k;
    double J[2][3];
    J[0][0]=w*q00*iz; J[0][1]=w*q01*iz; J[0][2]=-w*(q00*p0+q01*p1)*iz;
    J[1][0]=w*q01*iz; J[1][1]=w*q11*iz; J[1][2]=-w*(q01*p0+q11*p1)*iz;
    double p[2]={p0,p1};
    for (int r = 0; r < 2; r++) {
      double* g = o + 15*r;
      for (int j = 0; j < 3; j++) g[j] = J[r][0]*dR[j][0]+J[r][1]*dR[j][1]+J[r][2]*dR[j][2];
      for (int j = 0; j < 3; j++) { double v = J[r][0]*R[j]+J[r][1]*R[3+j]+J[r][2]*R[6+j]; g[3+j]=-v; g[11+j]=v; }
      g[6] = w*p[r]*L; g[7] = r==0?w:0; g[8] = r==1?w:0;
      g[9] = w*f*p[r]*r2; g[10] = w*f*p[r]*r2*r2;
      g[14] = f*p[r]*L + c[7+r] - feats[2*k+r];
    }
  }
}
