package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/nodestatus"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imagesPeriod is the interval at which the images in the Node are listed, as in Kubernetes.
const imagesPeriod = 30 * time.Second

// nodeImages holds the images in the Node. Only reportNode uses listed.
type nodeImages struct {
	listed time.Time

	mu   sync.Mutex
	list []corev1.ContainerImage // guarded by mu
}

func (n *nodeImages) current() []corev1.ContainerImage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list
}

// listImages lists the images for the Node if that is due. After an error, the Node keeps its list.
func (k *Kubelet) listImages(ctx context.Context) {
	service, ok := k.config.Images.(ImageRemover)
	if !ok || time.Since(k.images.listed) < imagesPeriod {
		return
	}
	k.images.listed = time.Now()
	out, err := service.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		if ctx.Err() == nil {
			k.log.Error(err, "list images for the node")
		}
		return
	}
	list := nodestatus.Images(out.GetImages())
	k.images.mu.Lock()
	defer k.images.mu.Unlock()
	k.images.list = list
}

// reserve checks the reservations, and limits all pods together to what is not reserved. The limit
// of their cgroup does not count the thresholds of evictions: those come first.
func (k *Kubelet) reserve() error {
	c := k.config
	if err := nodestatus.CheckReserved(k.host.capacity, c.SystemReserved, c.KubeReserved, eviction.Reserved(c.Eviction.Thresholds, k.host.capacity)); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	if c.CgroupRoot == "" {
		return nil
	}
	left := nodestatus.Allocatable(k.host.capacity, c.SystemReserved, c.KubeReserved)
	err := k.cgroups.Create(c.CgroupRoot, cgroup.Limits{Shares: qos.CPUShares(left.Cpu().MilliValue()), Memory: left.Memory().Value()})
	if err != nil {
		k.log.Error(err, "limit all pods", "cgroup", c.CgroupRoot)
		k.events.Node(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", fmt.Sprintf("Failed to update Node Allocatable Limits %q: %v", c.CgroupRoot, err))
		return nil
	}
	k.events.Node(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return nil
}
