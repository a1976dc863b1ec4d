package podsecurity

import "github.com/planekit/planekit/admission"

// Mode says what follows from a violation.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Audit   Mode = "audit"
	Warn    Mode = "warn"
)

// Evaluation is the outcome of a standard for a request. Outside of the mode Enforce only violations are reported.
type Evaluation struct {
	Mode     Mode
	Standard Standard
	Allowed  bool
}

// Metrics holds hooks for metrics, which must be safe for concurrent use and must not keep the request. The zero value
// has no cost.
type Metrics struct {
	// Evaluated is called after each evaluation.
	Evaluated func(*admission.Request, Evaluation)
	// Exempted is called for each request that is not evaluated because of an exemption.
	Exempted func(*admission.Request)
	// Failed is called for each error. After one that is not fatal, the pod is evaluated nevertheless.
	Failed func(r *admission.Request, fatal bool)
}

func (m Metrics) evaluated(r *admission.Request, e Evaluation) {
	if m.Evaluated != nil {
		m.Evaluated(r, e)
	}
}

func (m Metrics) exempted(r *admission.Request) {
	if m.Exempted != nil {
		m.Exempted(r)
	}
}

func (m Metrics) failed(r *admission.Request, fatal bool) {
	if m.Failed != nil {
		m.Failed(r, fatal)
	}
}
