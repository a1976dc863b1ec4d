// Package metrics exports what Pod Security admission decides to Prometheus, under the names that kube-apiserver has.
//
//	m := metrics.New()
//	registry.MustRegister(m)
//	plugin, err := podsecurity.New(podsecurity.Config{Metrics: m.Hooks(), ...})
//
// The series are pod_security_evaluations_total by decision, policy_level, policy_version, mode, request_operation,
// resource and subresource, pod_security_exemptions_total by the last three, and pod_security_errors_total by fatal and
// the last three. Versions after v1.36 are all future, so that labels of namespaces do not make series.
package metrics

import (
	"strconv"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/prometheus/client_golang/prometheus"
)

// release is the minor version of Kubernetes that planekit serves.
const release = 36

// Metrics is a [prometheus.Collector].
type Metrics struct {
	evaluations, exemptions, errors *prometheus.CounterVec
}

// New returns metrics that have counted nothing.
func New() *Metrics {
	request := []string{"request_operation", "resource", "subresource"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, request...))
	}
	return &Metrics{
		evaluations: counter("pod_security_evaluations_total", "Number of evaluations of a standard.",
			"decision", "policy_level", "policy_version", "mode"),
		exemptions: counter("pod_security_exemptions_total", "Number of exempt requests."),
		errors:     counter("pod_security_errors_total", "Number of errors. After one that is not fatal, pods must meet restricted.", "fatal"),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.evaluations.Describe(to)
	m.exemptions.Describe(to)
	m.errors.Describe(to)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.evaluations.Collect(to)
	m.exemptions.Collect(to)
	m.errors.Collect(to)
}

// Hooks returns the hooks that count. Several plugins may share them.
func (m *Metrics) Hooks() podsecurity.Metrics {
	return podsecurity.Metrics{
		Evaluated: func(r *admission.Request, e podsecurity.Evaluation) {
			decision := "deny"
			if e.Allowed {
				decision = "allow"
			}
			m.evaluations.WithLabelValues(append([]string{decision, e.Standard.Level.String(), version(e.Standard), string(e.Mode)}, labels(r)...)...).Inc()
		},
		Exempted: func(r *admission.Request) { m.exemptions.WithLabelValues(labels(r)...).Inc() },
		Failed: func(r *admission.Request, fatal bool) {
			m.errors.WithLabelValues(append([]string{strconv.FormatBool(fatal)}, labels(r)...)...).Inc()
		},
	}
}

func version(s podsecurity.Standard) string {
	switch {
	case s.Level == podsecurity.Privileged:
		return "latest"
	case s.Version.Pinned && s.Version.Minor > release:
		return "future"
	}
	return s.Version.String()
}

func labels(r *admission.Request) []string {
	resource := "controller"
	if r.Resource.Group == "" {
		switch r.Resource.Resource {
		case "pods":
			resource = "pod"
		case "namespaces":
			resource = "namespace"
		}
	}
	return []string{strings.ToLower(string(r.Operation)), resource, r.Subresource}
}
