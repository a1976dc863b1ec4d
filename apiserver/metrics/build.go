package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"
)

// Build shows the version that current returns as kubernetes_build_info. It is called once.
func (m *Metrics) Build(current func() version.Info) {
	m.registry.MustRegister(&build{current, prometheus.NewDesc("kubernetes_build_info",
		"A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
		[]string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"}, nil)})
}

type build struct {
	current func() version.Info
	desc    *prometheus.Desc
}

func (b *build) Describe(out chan<- *prometheus.Desc) { out <- b.desc }

func (b *build) Collect(out chan<- prometheus.Metric) {
	v := b.current()
	out <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, 1,
		v.Major, v.Minor, v.GitVersion, v.GitCommit, v.GitTreeState, v.BuildDate, v.GoVersion, v.Compiler, v.Platform)
}
