package kubelet

import (
	"context"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/nodestatus"
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
	most := nodestatus.DefaultImages
	if n := k.config.NodeImages; n != nil {
		most = *n
	}
	list := nodestatus.Images(out.GetImages(), most)
	k.images.mu.Lock()
	defer k.images.mu.Unlock()
	k.images.list = list
}
