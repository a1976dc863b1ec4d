package metrics

import "github.com/prometheus/client_golang/prometheus"

// An APIService is the state of an APIService for metrics.
type APIService struct {
	Name      string
	Available bool
	// Losses counts, by reason, how often it became unavailable.
	Losses map[string]uint64
}

// APIServices shows what list returns, whenever the metrics are read. It is called once.
func (m *Metrics) APIServices(list func() []APIService) {
	m.registry.MustRegister(&apiServices{list,
		prometheus.NewDesc("aggregator_unavailable_apiservice",
			"Gauge of APIServices which are marked as unavailable broken down by APIService name.", []string{"name"}, nil),
		prometheus.NewDesc("aggregator_unavailable_apiservice_total",
			"Counter of APIServices which are marked as unavailable broken down by APIService name and reason.", []string{"name", "reason"}, nil),
	})
}

type apiServices struct {
	list          func() []APIService
	state, losses *prometheus.Desc
}

func (a *apiServices) Describe(out chan<- *prometheus.Desc) { out <- a.state; out <- a.losses }

func (a *apiServices) Collect(out chan<- prometheus.Metric) {
	for _, s := range a.list() {
		unavailable := 1.0
		if s.Available {
			unavailable = 0
		}
		out <- prometheus.MustNewConstMetric(a.state, prometheus.GaugeValue, unavailable, s.Name)
		for reason, n := range s.Losses {
			out <- prometheus.MustNewConstMetric(a.losses, prometheus.CounterValue, float64(n), s.Name, reason)
		}
	}
}
