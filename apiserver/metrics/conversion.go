package metrics

import (
	"errors"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/prometheus/client_golang/prometheus"
)

// conversion holds the metrics of conversion webhooks.
type conversion struct {
	requests         *prometheus.CounterVec
	seconds          *prometheus.HistogramVec
	secondsOfVersion *prometheus.HistogramVec
}

func newConversion() conversion {
	return conversion{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_conversion_webhook_request_total",
			Help: "Counter for conversion webhook requests with success/failure and failure error type"}, []string{"result", "failure_type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_conversion_webhook_duration_seconds",
			Help:    "Conversion webhook request latency",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60}}, []string{"result", "failure_type"}),
		secondsOfVersion: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_crd_conversion_webhook_duration_seconds",
			Help: "CRD webhook conversion duration in seconds", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)},
			[]string{"crd_name", "from_version", "to_version", "succeeded"}),
	}
}

// callFailure is the failure_type of an error that does not have one.
const callFailure = "conversion_webhook_call_failure"

func (c *conversion) observe(s apiserver.ConversionSummary) {
	took := s.Took.Seconds()
	c.secondsOfVersion.WithLabelValues(s.Resource.String(), s.From, s.To, strconv.FormatBool(s.Err == nil)).Observe(took)
	result, kind := "success", ""
	if s.Err != nil {
		result, kind = "failure", callFailure
		var failure interface{ ConversionFailure() string }
		if errors.As(s.Err, &failure) {
			if kind = failure.ConversionFailure(); kind == "" {
				return
			}
		}
	}
	c.requests.WithLabelValues(result, kind).Inc()
	c.seconds.WithLabelValues(result, kind).Observe(took)
}
