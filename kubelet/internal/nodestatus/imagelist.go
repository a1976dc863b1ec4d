package nodestatus

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imagesPeriod is the interval at which the images in the Node are listed, as in Kubernetes.
const imagesPeriod = 30 * time.Second

// ImageLister lists the images of a runtime.
type ImageLister interface {
	ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error)
}

// ImageList holds the images in a Node.
type ImageList struct {
	images ImageLister
	most   int
	log    logr.Logger
	listed time.Time // used by Update alone

	mu   sync.Mutex
	list []corev1.ContainerImage // guarded by mu
}

// NewImageList returns a list of at most most images; -1 means all. Without images, it stays empty.
func NewImageList(images ImageLister, most int, log logr.Logger) *ImageList {
	return &ImageList{images: images, most: most, log: log}
}

// Current returns the images.
func (l *ImageList) Current() []corev1.ContainerImage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// Update lists the images if that is due. After an error, the Node keeps its list. It must not be called at the
// same time as itself.
func (l *ImageList) Update(ctx context.Context) {
	if l.images == nil || time.Since(l.listed) < imagesPeriod {
		return
	}
	l.listed = time.Now()
	out, err := l.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		if ctx.Err() == nil {
			l.log.Error(err, "list images for the node")
		}
		return
	}
	list := Images(out.GetImages(), l.most)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = list
}
