"""The names of SciPy that have no meaning for derivatives, by module and reason."""

from __future__ import annotations

_CLASSES = "an exception, a warning, or a setting of how errors are reported"
_DESIGN = "designs a filter of plain specifications"
_SYSTEMS = "represents a linear system, or converts its representation"
_CHECKS = "answers yes or no, or how many"
_CONSTANT = "makes a constant of plain numbers"
_DISCRETE = "its result is discrete"
_TESTS = "tests a hypothesis"
_PLOTS = "plots, tables or random samples"
_SETTING = "a setting, a backend, or an object of SciPy's solvers"
_SEARCH = "searches a discrete or a global optimum"
_ZEROS = "the places of zeros, and the nodes of quadrature rules, of plain orders"
_POLYNOMIALS = "a polynomial as an object of NumPy's, of a plain order"

WITHOUT: dict[str, dict[str, str]] = {
    "signal": {
        _CLASSES: "BadCoefficients",
        _DESIGN: """band_stop_obj bessel besselap buttap butter buttord cheb1ap cheb1ord cheb2ap
            cheb2ord cheby1 cheby2 ellip ellipap ellipord firls firwin firwin2 firwin_2d gammatone
            iircomb iirdesign iirfilter iirnotch iirpeak kaiser_atten kaiser_beta kaiserord
            minimum_phase remez savgol_coeffs closest_STFT_dual_window""",
        _SYSTEMS: """StateSpace TransferFunction ZerosPolesGain dlti lti abcd_normalize bilinear
            bilinear_zpk cont2discrete invres invresz lp2* normalize residue residuez sos2* ss2*
            tf2* zpk2* unique_roots place_poles lfiltic bode dbode dfreqresp dimpulse dlsim dstep
            freqresp impulse lsim step findfreqs""",
        _CHECKS: "check_* choose_conv_method",
        _CONSTANT: "correlation_lags czt_points get_window max_len_seq unit_impulse",
        _DISCRETE: "argrelextrema argrelmax argrelmin find_peaks find_peaks_cwt",
    },
    "ndimage": {
        _DISCRETE: """binary_* distance_transform_cdt find_objects label maximum_position
            minimum_position value_indices watershed_ift histogram""",
        _CONSTANT: "generate_binary_structure iterate_structure",
        "decorates functions inside SciPy": "vectorized_filter",
    },
    "interpolate": {
        "chooses knots by the data": """generate_knots SmoothBivariateSpline
            SmoothSphereBivariateSpline bisplrep""",
        "removed from SciPy": "interp2d",
    },
    "sparse.linalg": {
        _CLASSES: "ArpackError ArpackNoConvergence MatrixRankWarning",
        _CHECKS: "is_sptriangular spbandwidth",
        _SETTING: "SuperLU use_solver LaplacianNd spilu",
    },
    "optimize": {
        _CLASSES: "NoConvergence OptimizeWarning",
        _SETTING: """BFGS BroydenFirst HessianUpdateStrategy InverseJacobian KrylovJacobian
            LbfgsInvHessProduct OptimizeResult RootResults SR1
            linprog_verbose_callback show_options""",
        _SEARCH: "milp quadratic_assignment",
        "its derivative is what it is there to approximate": "approx_fprime check_grad",
        _DISCRETE: "bracket",
        "its step is any that satisfies inequalities": "line_search",
    },
    "integrate": {
        _CLASSES: "IntegrationWarning ODEintWarning",
        _SETTING: "BDF DOP853 DenseOutput LSODA OdeSolver RK23 RK45 Radau complex_ode ode",
        _CONSTANT: "lebedev_rule newton_cotes",
    },
    "spatial.distance": {
        _CHECKS: "is_valid_* num_obs_*",
    },
    "stats": {
        _CLASSES: "ConstantInputWarning DegenerateDataWarning FitError NearConstantInputWarning",
        _TESTS: """BootstrapMethod MonteCarloMethod PermutationMethod CensoredData alexandergovern
            anderson anderson_ksamp ansari barnard_exact binomtest boschloo_exact brunnermunzel
            bws_test chi2_contingency cramervonmises* dunnett epps_singleton_2samp
            false_discovery_control fisher_exact fligner friedmanchisquare goodness_of_fit ks_*
            kstest mannwhitneyu median_test monte_carlo_test mood multiscale_graphcorr
            page_trend_test permutation_test poisson_means_test power quantile_test ranksums
            shapiro tukey_hsd wilcoxon logrank bayes_mvs mvsdist sobol_indices""",
        "of ranks or counts alone": """chatterjeexi kendalltau somersd spearmanr spearmanrho
            weightedtau tiecorrect cumfreq relfreq percentileofscore""",
        _PLOTS: """boxcox_normplot ppcc_max ppcc_plot probplot yeojohnson_normplot random_table
            random_correlation""",
        "a class or a function to make distributions": """Covariance Mixture make_distribution
            order_statistic rv_continuous rv_discrete rv_histogram truncate abs exp log fit""",
        "a class to read results": "ecdf",
    },
    "linalg": {
        _CLASSES: "LinAlgError LinAlgWarning",
        _CHECKS: "bandwidth ishermitian issymmetric",
        _SETTING: "find_best_blas_type get_blas_funcs get_lapack_funcs",
        _CONSTANT: "dft hadamard helmert hilbert invhilbert invpascal pascal",
        "draws random numbers": "clarkson_woodruff_transform",
    },
    "fft": {
        _SETTING: """get_workers set_workers register_backend set_backend set_global_backend
            skip_backend""",
        _CONSTANT: "fftfreq rfftfreq fhtoffset next_fast_len prev_fast_len",
    },
    "special": {
        _CLASSES: "SpecialFunctionError SpecialFunctionWarning errstate geterr seterr",
        _ZEROS: "*_zeros *_roots roots_*",
        _POLYNOMIALS: """chebyc chebys chebyt chebyu gegenbauer genlaguerre hermite hermitenorm
            jacobi laguerre legendre sh_chebyt sh_chebyu sh_jacobi sh_legendre""",
        _CONSTANT: """bernoulli euler factorial2 factorialk stirling2 mathieu_even_coef
            mathieu_odd_coef obl_cv_seq pro_cv_seq""",
    },
}  # fmt: skip
