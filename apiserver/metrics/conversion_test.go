package metrics_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/metrics"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type failure struct {
	error
	kind string
}

func (f failure) ConversionFailure() string { return f.kind }

func TestConversions(t *testing.T) {
	m := metrics.New()
	for _, err := range []error{nil, nil, errors.New("it has ended"), failure{kind: "partial"}, failure{}} {
		m.Hooks().Converted(apiserver.ConversionSummary{
			Resource: schema.GroupResource{Group: "example.com", Resource: "lamps"}, From: "v1", To: "v2", Objects: 3, Took: 30 * time.Millisecond, Err: err,
		})
	}
	w := &page{}
	m.Handler().ServeHTTP(w, &http.Request{Method: http.MethodGet})
	for _, want := range []string{
		`apiserver_conversion_webhook_request_total{failure_type="",result="success"} 2`,
		`apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_call_failure",result="failure"} 1`,
		`apiserver_conversion_webhook_request_total{failure_type="partial",result="failure"} 1`,
		`apiserver_conversion_webhook_duration_seconds_bucket{failure_type="",result="success",le="0.02"} 0`,
		`apiserver_conversion_webhook_duration_seconds_bucket{failure_type="",result="success",le="0.05"} 2`,
		`apiserver_crd_conversion_webhook_duration_seconds_bucket{crd_name="lamps.example.com",from_version="v1",succeeded="true",to_version="v2",le="0.032"} 2`,
		`apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="lamps.example.com",from_version="v1",succeeded="false",to_version="v2"} 3`,
	} {
		if !strings.Contains(w.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(w.String(), "apiserver_conversion_webhook_request_total{"); n != 3 {
		t.Errorf("%d series", n)
	}
}
