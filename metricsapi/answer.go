package metricsapi

import (
	"fmt"
	"io"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/metricsapi/internal/promtext"
)

// maxAnswer bounds the answer of a kubelet, in bytes. That of a node with 1000 containers has 1 MiB.
const maxAnswer = 16 << 20

// A point is what has been used at a time. Negative values are not known.
type point struct {
	at      time.Time
	cpu     float64 // seconds since the start
	memory  float64 // bytes
	started time.Time
}

// valid reports whether all that is needed is known.
func (p *point) valid() bool { return p.cpu >= 0 && p.memory >= 0 }

// containerKey identifies a container of a node.
type containerKey struct{ pod, name string } // namespace/name of the pod

// answer holds the points of one answer of a kubelet.
type answer struct {
	node       *point
	containers map[containerKey]*point
	uids       map[string]string // of the pods, by namespace/name
}

// maxValue bounds values: seconds and bytes beyond it cannot be true.
const maxValue = 1 << 60

// maxTime is the end of the year 9999 in seconds since 1970.
const maxTime = 253402300799

// readAnswer reads the answer of a node's kubelet. It keeps the containers of the pods that are bound
// to the node, so its size is bounded by the number of these.
func readAnswer(r io.Reader, node string, pods localcache.Getter[*corev1.Pod], now time.Time) (*answer, error) {
	a := &answer{containers: map[containerKey]*point{}, uids: map[string]string{}}
	newPoint := func() *point { return &point{at: now, cpu: -1, memory: -1} }
	err := promtext.Parse(r, maxAnswer, func(s promtext.Sample) error {
		var p *point
		switch s.Name {
		case "resource_scrape_error":
			if s.Value != 0 {
				return fmt.Errorf("the kubelet has no statistics of its containers (resource_scrape_error %v)", s.Value)
			}
			return nil
		case "node_cpu_usage_seconds_total", "node_memory_working_set_bytes":
			if a.node == nil {
				a.node = newPoint()
			}
			p = a.node
		case "container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_start_time_seconds":
			key := containerKey{s.Labels["namespace"] + "/" + s.Labels["pod"], s.Labels["container"]}
			if p = a.containers[key]; p == nil {
				pod, ok := pods.Get(key.pod)
				if !ok || pod.Spec.NodeName != node || !hasContainer(pod, key.name) {
					return nil
				}
				p = newPoint()
				a.containers[key], a.uids[key.pod] = p, string(pod.UID)
			}
		default:
			return nil
		}
		return p.set(s)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// set takes over the value of a sample.
func (p *point) set(s promtext.Sample) error {
	if !(s.Value >= 0 && s.Value <= maxValue) { // also if it is not a number
		return fmt.Errorf("%s: %v is not possible", s.Name, s.Value)
	}
	switch s.Name {
	case "node_cpu_usage_seconds_total", "container_cpu_usage_seconds_total":
		if p.cpu = s.Value; !s.Time.IsZero() {
			p.at = s.Time
		}
	case "container_start_time_seconds":
		p.started = time.UnixMicro(int64(math.Round(min(s.Value, maxTime) * 1e6)))
	default:
		p.memory = s.Value
	}
	return nil
}

// hasContainer reports whether the pod has the container in its spec.
func hasContainer(pod *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}
