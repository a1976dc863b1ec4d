package metrics

import (
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/prometheus/client_golang/prometheus"
)

// flow holds the metrics of requests that pass flow control.
type flow struct {
	waits, executions, seats *prometheus.HistogramVec
}

// The buckets of kube-apiserver, in seconds and in seats.
var (
	flowDurations = []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	flowSeats     = []float64{1, 2, 4, 8, 16, 32, 64, 100}
)

func newFlow() flow {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_flowcontrol_" + name, Help: help, Buckets: buckets},
			append([]string{"priority_level", "flow_schema"}, labels...))
	}
	return flow{
		waits:      histogram("request_wait_duration_seconds", "Length of time a request spent waiting in its queue.", flowDurations, "execute"),
		executions: histogram("request_execution_seconds", "Duration of the execution of a request that flow control let in.", flowDurations, "type"),
		seats:      histogram("work_estimated_seats", "Number of seats that a request is estimated to take.", flowSeats),
	}
}

func (f *flow) observe(s apiserver.RequestSummary) {
	if s.Flow.Level == "" {
		return
	}
	f.waits.WithLabelValues(s.Flow.Level, s.Flow.Schema, strconv.FormatBool(!s.Flow.Rejected)).Observe(s.Flow.Waited.Seconds())
	if s.Flow.Rejected {
		return
	}
	kind := "regular"
	if s.Verb == "watch" {
		kind = "watch"
	}
	f.executions.WithLabelValues(s.Flow.Level, s.Flow.Schema, kind).Observe(s.Flow.Executed.Seconds())
	f.seats.WithLabelValues(s.Flow.Level, s.Flow.Schema).Observe(float64(s.Flow.Seats))
}

// FlowControl shows the state of c, which must be the one of the server's configuration. It must
// be called once.
func (m *Metrics) FlowControl(c *flowcontrol.Controller) { m.registry.MustRegister(flowCollector{c}) }

// flowCollector reads the state of a controller when it is asked.
type flowCollector struct{ controller *flowcontrol.Controller }

// levelGauge and schemaGauge are one series each, of every level and of every schema.
type (
	levelGauge struct {
		*prometheus.Desc
		of func(flowcontrol.LevelStatus) float64
	}
	schemaValue struct {
		*prometheus.Desc
		kind prometheus.ValueType
		of   func(flowcontrol.SchemaStatus) float64
	}
)

func ofLevel(name, help string, of func(flowcontrol.LevelStatus) float64) levelGauge {
	return levelGauge{prometheus.NewDesc("apiserver_flowcontrol_"+name, help, []string{"priority_level"}, nil), of}
}

func ofSchema(name, help string, kind prometheus.ValueType, of func(flowcontrol.SchemaStatus) float64) schemaValue {
	return schemaValue{prometheus.NewDesc("apiserver_flowcontrol_"+name, help, []string{"priority_level", "flow_schema"}, nil), kind, of}
}

var levelGauges = []levelGauge{
	ofLevel("nominal_limit_seats", "Nominal number of seats of a priority level.", func(l flowcontrol.LevelStatus) float64 { return float64(l.Nominal) }),
	ofLevel("lower_limit_seats", "Least number of seats, when all that is lendable is lent.", func(l flowcontrol.LevelStatus) float64 { return float64(l.Min) }),
	ofLevel("upper_limit_seats", "Greatest number of seats, when all is borrowed that may be.", func(l flowcontrol.LevelStatus) float64 { return float64(l.Max) }),
	ofLevel("current_limit_seats", "Present number of seats of a priority level.", func(l flowcontrol.LevelStatus) float64 { return float64(l.Limit) }),
	ofLevel("demand_seats_high_watermark", "Greatest demand of the last period of adjustment.", func(l flowcontrol.LevelStatus) float64 { return float64(l.High) }),
	ofLevel("demand_seats_average", "Mean demand of the last period of adjustment.", func(l flowcontrol.LevelStatus) float64 { return l.Average }),
	ofLevel("demand_seats_stdev", "Standard deviation of the demand of the last period of adjustment.", func(l flowcontrol.LevelStatus) float64 { return l.Deviation }),
	ofLevel("demand_seats_smoothed", "Smoothed demand by which seats are lent.", func(l flowcontrol.LevelStatus) float64 { return l.Smoothed }),
}

var schemaValues = []schemaValue{
	ofSchema("current_executing_seats", "Seats in use, those that linger included.", prometheus.GaugeValue, func(s flowcontrol.SchemaStatus) float64 { return float64(s.SeatsInUse) }),
	ofSchema("current_inqueue_seats", "Seats that waiting requests need.", prometheus.GaugeValue, func(s flowcontrol.SchemaStatus) float64 { return float64(s.SeatsWaiting) }),
	ofSchema("current_executing_requests", "Requests that have seats.", prometheus.GaugeValue, func(s flowcontrol.SchemaStatus) float64 { return float64(s.Executing) }),
	ofSchema("current_inqueue_requests", "Requests that wait.", prometheus.GaugeValue, func(s flowcontrol.SchemaStatus) float64 { return float64(s.Waiting) }),
	ofSchema("dispatched_requests_total", "Requests that were let in.", prometheus.CounterValue, func(s flowcontrol.SchemaStatus) float64 { return float64(s.Dispatched) }),
}

var rejections = prometheus.NewDesc("apiserver_flowcontrol_rejected_requests_total", "Requests that were not let in.",
	[]string{"priority_level", "flow_schema", "reason"}, nil)

func (flowCollector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range levelGauges {
		out <- g.Desc
	}
	for _, v := range schemaValues {
		out <- v.Desc
	}
	out <- rejections
}

func (f flowCollector) Collect(out chan<- prometheus.Metric) {
	for _, l := range f.controller.Levels() {
		for _, g := range levelGauges {
			out <- prometheus.MustNewConstMetric(g.Desc, prometheus.GaugeValue, g.of(l), l.Name)
		}
	}
	for _, s := range f.controller.Schemas() {
		for _, v := range schemaValues {
			out <- prometheus.MustNewConstMetric(v.Desc, v.kind, v.of(s), s.Level, s.Schema)
		}
		for reason, n := range map[string]uint64{"queue-full": s.QueueFull, "concurrency-limit": s.NoSeat, "time-out": s.TimedOut, "cancelled": s.Cancelled} {
			out <- prometheus.MustNewConstMetric(rejections, prometheus.CounterValue, float64(n), s.Level, s.Schema, reason)
		}
	}
}
