package lifecycle

import (
	"fmt"

	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
)

// planSize resizes a running container, or restarts it if its policy says so. A container of unknown
// size is not restarted: it may have the right one.
func (p *planner) planSize(spec *corev1.Container, current *Container) {
	now, known := p.state.Actuated[spec.Name]
	if known && resize.Restarts(spec, now) {
		p.Stop = append(p.Stop, []StopAction{{
			Container: *current, Message: fmt.Sprintf("Container %s resize requires restart", spec.Name), Resize: true,
		}})
		return
	}
	update := resize.Update{ID: current.ID, Spec: spec}
	if known {
		update.Now = &now
	}
	p.Resize = append(p.Resize, update)
}

// planPodSize resizes the pod's cgroup if its limits are not those of the pod.
func (p *planner) planPodSize() {
	if p.Finished || p.state.Cgroup == nil {
		return
	}
	if resize.Target(*p.state.Cgroup, qos.Limits(p.pod)) != *p.state.Cgroup {
		p.Resizing, p.ResizePod = true, true
	}
}
