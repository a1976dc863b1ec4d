package metrics_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/metrics"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// lines returns the samples that handler serves whose names begin with one of prefixes, without buckets.
func lines(handler http.Handler, prefixes ...string) []string {
	w := &page{}
	handler.ServeHTTP(w, &http.Request{Method: http.MethodGet})
	var all []string
	for line := range strings.Lines(w.String()) {
		wanted := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) })
		if wanted && !strings.Contains(line, "_bucket{") && !strings.Contains(line, "_sum") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// TestHooks: each hook shows in its own series, with the labels of kube-apiserver.
func TestHooks(t *testing.T) {
	endpoints := schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	summary := apiserver.RequestSummary{Verb: "apply", Resource: endpoints, Scope: "resource", Code: 504}
	for _, one := range []struct {
		name string
		do   func(*metrics.Metrics)
		want []string
	}{
		{"a plugin", func(m *metrics.Metrics) {
			m.Plugin("Priority", "admit", admission.Create, time.Second, nil)
			m.Plugin("Priority", "validate", admission.Create, time.Second, errors.New("no"))
		}, []string{
			`apiserver_admission_controller_admission_duration_seconds_count{name="Priority",operation="CREATE",rejected="false",type="admit"} 1`,
			`apiserver_admission_controller_admission_duration_seconds_count{name="Priority",operation="CREATE",rejected="true",type="validate"} 1`,
		}},
		{"a webhook", func(m *metrics.Metrics) {
			m.Webhook("a.example.com", true, admission.Update, time.Second, false)
			m.Webhook("a.example.com", false, admission.Update, time.Second, true)
		}, []string{
			`apiserver_admission_webhook_admission_duration_seconds_count{name="a.example.com",operation="UPDATE",rejected="false",type="admit"} 1`,
			`apiserver_admission_webhook_admission_duration_seconds_count{name="a.example.com",operation="UPDATE",rejected="true",type="validating"} 1`,
		}},
		{"a half of admission", func(m *metrics.Metrics) {
			m.Hooks().Admitted(apiserver.AdmissionSummary{Validating: true, Operation: admission.Delete, Took: time.Second})
		}, []string{`apiserver_admission_step_admission_duration_seconds_count{operation="DELETE",rejected="false",type="validate"} 1`}},
		{"a terminated request", func(m *metrics.Metrics) {
			s := summary
			s.Terminated = true
			m.Hooks().Ended(s)
		}, []string{`apiserver_request_terminations_total{code="504",component="apiserver",group="",resource="endpoints",scope="resource",subresource="",verb="APPLY",version="v1"} 1`}},
		{"a deprecated resource", func(m *metrics.Metrics) {
			s := summary
			s.Deprecated, s.RemovedRelease = true, "1.40"
			m.Hooks().Ended(s)
			m.Hooks().Ended(s)
		}, []string{`apiserver_requested_deprecated_apis{group="",removed_release="1.40",resource="endpoints",subresource="",version="v1"} 1`}},
		{"a body", func(m *metrics.Metrics) {
			s := summary
			s.BodyBytes = 60000
			m.Hooks().Ended(s)
			s.Resource = schema.GroupVersionResource{} // a path that a client made up
			m.Hooks().Ended(s)
		}, []string{`apiserver_request_body_size_bytes_count{group="",resource="endpoints",verb="patch"} 1`}},
		{"APIServices", func(m *metrics.Metrics) {
			m.APIServices(func() []metrics.APIService {
				return []metrics.APIService{{Name: "v1.", Available: true}, {Name: "v1.x", Losses: map[string]uint64{"FailedDiscoveryCheck": 3}}}
			})
		}, []string{
			`aggregator_unavailable_apiservice{name="v1."} 0`,
			`aggregator_unavailable_apiservice{name="v1.x"} 1`,
			`aggregator_unavailable_apiservice_total{name="v1.x",reason="FailedDiscoveryCheck"} 3`,
		}},
		{"a build", func(m *metrics.Metrics) {
			m.Build(func() version.Info { return version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3+x"} })
		}, []string{`kubernetes_build_info{build_date="",compiler="",git_commit="",git_tree_state="",git_version="v1.36.3+x",go_version="",major="1",minor="36",platform=""} 1`}},
	} {
		t.Run(one.name, func(t *testing.T) {
			m := metrics.New()
			one.do(m)
			name, _, _ := strings.Cut(one.want[0], "{")
			if got := lines(m.Handler(), name); !slices.Equal(got, one.want) {
				t.Errorf("lines(%s) = \n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(one.want, "\n"))
			}
		})
	}
}

// TestLatencyObjective: webhooks and queues do not count for the objective, and dry runs not at all.
func TestLatencyObjective(t *testing.T) {
	m := metrics.New()
	s := apiserver.RequestSummary{Verb: "create", Code: 201, Took: 5 * time.Second, WebhookTime: 3 * time.Second}
	s.Flow.Waited = time.Second
	m.Hooks().Ended(s)
	s.DryRun = true
	m.Hooks().Ended(s)
	w := &page{}
	m.Handler().ServeHTTP(w, &http.Request{Method: http.MethodGet})
	const of = `{component="apiserver",group="",resource="",scope="",subresource="",verb="POST",version=""} 1`
	for _, want := range []string{"apiserver_request_sli_duration_seconds_sum" + of, "apiserver_request_sli_duration_seconds_count" + of} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("Handler() serves no %s", want)
		}
	}
}

// TestChecks: the last result of each check is shown, and how often it had which result.
func TestChecks(t *testing.T) {
	m := metrics.New()
	m.Hooks().Checked("readyz", "storage", nil)
	m.Hooks().Checked("readyz", "storage", errors.New("no quorum"))
	want := []string{
		`kubernetes_healthcheck{name="storage",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="storage",status="error",type="readyz"} 1`,
		`kubernetes_healthchecks_total{name="storage",status="success",type="readyz"} 1`,
	}
	if got := lines(m.SLIs(), "kubernetes_"); !slices.Equal(got, want) {
		t.Errorf("lines(kubernetes_) = %q, want %q", got, want)
	}
}

// TestCertificates: the lifetimes of the certificates count with which users were authenticated, not those of other certificates.
func TestCertificates(t *testing.T) {
	for _, one := range []struct {
		name string
		user *user.Info
		err  error
		want string
	}{
		{"the certificate's user", &user.Info{Name: "jane"}, nil, "1"},
		{"a user that a front proxy names", &user.Info{Name: "joe"}, nil, "0"},
		{"a certificate that cannot be verified", nil, errors.New("unknown authority"), "0"},
		{"a certificate of no account", nil, nil, "0"},
	} {
		m := metrics.New()
		a := m.Authenticator(authn.Func(func(*http.Request) (*user.Info, bool, error) { return one.user, one.user != nil, one.err }))
		leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "jane"}, NotAfter: time.Now().Add(time.Hour)}
		u, ok, err := a.Authenticate(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}})
		if u != one.user || ok != (one.user != nil) || err != one.err {
			t.Errorf("%s: Authenticate() = %v, %v, %v, want %v, %v", one.name, u, ok, err, one.user, one.err)
		}
		want := []string{"apiserver_client_certificate_expiration_seconds_count " + one.want}
		if got := lines(m.Handler(), "apiserver_client_certificate"); !slices.Equal(got, want) {
			t.Errorf("%s: lines(apiserver_client_certificate) = %q, want %q", one.name, got, want)
		}
	}
}
