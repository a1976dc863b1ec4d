package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/webhook"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
)

// TestCalled: each call of a webhook is reported with its name, its operation and whether it refuses the request. A failure that
// is ignored does not.
func TestCalled(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	w := begin(t, func(c *webhook.Config) {
		c.Called = func(call webhook.Call) {
			mu.Lock()
			defer mu.Unlock()
			if call.Took <= 0 || call.Took > time.Minute {
				t.Errorf("Called(%+v): want a duration", call)
			}
			calls = append(calls, fmt.Sprintf("%s %v %s %v", call.Webhook, call.Mutating, call.Operation, call.Rejected))
		}
	})
	refuse := serve(t, func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		return &admissionapi.AdmissionResponse{}
	})
	broken := serveHTTP(t, func(w http.ResponseWriter, _ *admissionapi.AdmissionReview, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})
	w.configure("a", true, serve(t, allow).at(), nil)
	w.configure("b", true, broken.at(), func(h *registration.MutatingWebhook) { h.FailurePolicy = new(registration.Ignore) })
	w.configure("c", false, refuse.at(), nil)
	w.check(w.make("x", ""), 400, `admission webhook "c.example.com" denied the request without explanation`)
	w.configure("d", true, broken.at(), nil)
	w.check(w.make("y", ""), 500, "failed calling webhook")
	want := []string{
		"a.example.com true CREATE false", "b.example.com true CREATE false", "c.example.com false CREATE true",
		"a.example.com true CREATE false", "b.example.com true CREATE false", "d.example.com true CREATE true",
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(calls, want) {
		t.Errorf("Called = %q, want %q", calls, want)
	}
}
