package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podsecurity"
	"github.com/planekit/planekit/admission/podsecurity/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// counted returns the series of m with their values.
func counted(m *metrics.Metrics) []string {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, f := range families {
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			lines = append(lines, fmt.Sprint(f.GetName(), " ", strings.Join(labels, " "), " ", series.GetCounter().GetValue()))
		}
	}
	return lines
}

func pods(op admission.Operation, subresource string) *admission.Request {
	return &admission.Request{Operation: op, Subresource: subresource, Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func Example() {
	m := metrics.New()
	hooks := m.Hooks()
	hooks.Evaluated(pods(admission.Create, ""), podsecurity.Evaluation{Mode: podsecurity.Enforce, Allowed: true})
	hooks.Exempted(pods(admission.Update, "ephemeralcontainers"))
	hooks.Failed(pods(admission.Create, ""), true)
	fmt.Println(strings.Join(counted(m), "\n"))
	// Output:
	// pod_security_errors_total fatal=true request_operation=create resource=pod subresource= 1
	// pod_security_evaluations_total decision=allow mode=enforce policy_level=privileged policy_version=latest request_operation=create resource=pod subresource= 1
	// pod_security_exemptions_total request_operation=update resource=pod subresource=ephemeralcontainers 1
}

// TestVersions: a namespace cannot make a series of its own.
func TestVersions(t *testing.T) {
	m := metrics.New()
	hooks := m.Hooks()
	r := &admission.Request{Operation: admission.Create, Resource: admission.GroupVersionResource{Group: "apps", Resource: "deployments"}}
	for _, v := range []int{30, 36, 37, 1000, 1 << 40} {
		hooks.Evaluated(r, podsecurity.Evaluation{Mode: podsecurity.Warn, Standard: podsecurity.Standard{Level: podsecurity.Baseline, Version: podsecurity.V(v)}})
		hooks.Evaluated(r, podsecurity.Evaluation{Mode: podsecurity.Warn, Standard: podsecurity.Standard{Version: podsecurity.V(v)}})
	}
	const series = "pod_security_evaluations_total decision=deny mode=warn policy_level=%s policy_version=%s request_operation=create resource=controller subresource= %d\n"
	want := fmt.Sprintf(series+series+series+series, "baseline", "future", 3, "baseline", "v1.30", 1, "baseline", "v1.36", 1, "privileged", "latest", 5)
	if got := strings.Join(counted(m), "\n") + "\n"; got != want {
		t.Errorf("the series are\n%s, want\n%s", got, want)
	}
}
