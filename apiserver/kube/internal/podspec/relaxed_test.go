package podspec_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestRelaxed checks names and times for which Kubernetes has become less strict, and addresses for which
// it has become stricter.
func TestRelaxed(t *testing.T) {
	web := func(s *corev1.PodSpec) *corev1.Container { return &s.Containers[0] }
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"a variable that no shell can read": {func(s *corev1.PodSpec) { web(s).Env = []corev1.EnvVar{{Name: "1.a b-$:%"}} }, "<nil>"},
		"a variable with an equals sign": {func(s *corev1.PodSpec) { web(s).Env = []corev1.EnvVar{{Name: "a=b"}} },
			`spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='`},
		"a search list with underscores and the root": {func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"_sip._tcp.example.com", ".", "example.com."}}
		}, "<nil>"},
		"an address of a server with a leading zero": {func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"1.2.3.04"}}
		}, `spec.dnsConfig.nameservers[0]: Invalid value: "1.2.3.04": must not have leading 0s`},
		"a sleep of no time": {func(s *corev1.PodSpec) {
			web(s).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}}
		}, "<nil>"},
		"a sleep that ends before it begins": {func(s *corev1.PodSpec) {
			web(s).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: -1}}}
		}, "spec.containers[0].lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than terminationGracePeriodSeconds (30)"},
	} {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}}
		test.change(&spec)
		podspec.Default(&spec)
		var ps check.Problems
		podspec.Check(&ps, field.NewPath("spec"), &spec)
		if got := fmt.Sprint(ps.List.ToAggregate()); got != test.want {
			t.Errorf("%s: Check = %s, want %s", name, got, test.want)
		}
	}
}
