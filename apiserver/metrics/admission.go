package metrics

import (
	"strconv"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/prometheus/client_golang/prometheus"
)

// admitted holds the durations of admission: of its two halves, of plugins and of webhooks.
type admitted struct{ step, controller, webhook *prometheus.HistogramVec }

// The buckets of kube-apiserver, in seconds. A webhook may take up to 30.
var (
	admissionDurations = []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}
	webhookDurations   = append(admissionDurations[:6:6], 10, 25)
)

func newAdmitted() admitted {
	histogram := func(of, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_admission_" + of + "_admission_duration_seconds",
			Help: help + ", by operation and type (validate or admit).", Buckets: buckets}, append(labels, "type", "operation", "rejected"))
	}
	return admitted{
		step:       histogram("step", "Duration of all plugins together", admissionDurations),
		controller: histogram("controller", "Duration of a plugin", admissionDurations, "name"),
		webhook:    histogram("webhook", "Duration of a call of a webhook", webhookDurations, "name"),
	}
}

// observeStep is called after each half of admission.
func (a *admitted) observeStep(s apiserver.AdmissionSummary) {
	half := "admit"
	if s.Validating {
		half = "validate"
	}
	a.step.WithLabelValues(half, string(s.Operation), strconv.FormatBool(s.Rejected)).Observe(s.Took.Seconds())
}

// Plugin counts a run of an admission plugin. The phase is "admit" or "validate". It is the hook
// Metrics.Done of package admission/plugins.
func (m *Metrics) Plugin(name, phase string, op admission.Operation, took time.Duration, err error) {
	m.admitted.controller.WithLabelValues(name, phase, string(op), strconv.FormatBool(err != nil)).Observe(took.Seconds())
}

// Webhook counts a call of an admission webhook.
func (m *Metrics) Webhook(name string, mutating bool, op admission.Operation, took time.Duration, rejected bool) {
	kind := "validating"
	if mutating {
		kind = "admit"
	}
	m.admitted.webhook.WithLabelValues(name, kind, string(op), strconv.FormatBool(rejected)).Observe(took.Seconds())
}
