package nodes

import (
	"context"
	"iter"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/kubelet/volumestats"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// staticPods returns where the static pods of a node come from.
func staticPods(c Config, log logr.Logger) staticpods.Config {
	static := staticpods.Config{NodeName: c.Name, Path: c.ManifestPath, Complete: core.CompletePod, Log: log}
	if c.StaticPods != nil {
		c.StaticPods(&static)
	}
	return static
}

// startStatic starts the source of the node's static pods, if it has one.
func (n *node) startStatic(s *stack.Stack) error {
	if n.static.Path == "" && n.static.URL == "" {
		return nil
	}
	static, err := staticpods.New(n.static)
	if err != nil {
		return err
	}
	n.config.StaticPods, n.config.CreatePod = static, typed.Pods(n.api).Create
	s.Start("static pods", static.Run)
	return nil
}

// runningPods are the pods of a node for its server, which starts before the kubelet: until then,
// those of the API.
type runningPods struct {
	node *node
	api  localcache.Reader[*corev1.Pod]
}

func (r runningPods) reader() localcache.Reader[*corev1.Pod] {
	if k := r.node.kubelet.Load(); k != nil {
		return k.Pods()
	}
	return r.api
}

func (r runningPods) Get(key string) (*corev1.Pod, bool) { return r.reader().Get(key) }
func (r runningPods) All() iter.Seq[*corev1.Pod]         { return r.reader().All() }

// volumeStats returns the statistics of the volumes of a pod.
func (r runningPods) volumeStats(ctx context.Context, pod *corev1.Pod) []volumestats.Stats {
	if k := r.node.kubelet.Load(); k != nil {
		return k.VolumeStats(ctx, pod)
	}
	return nil
}

// mirrorUID returns the UID that a static pod has in the API.
func (r runningPods) mirrorUID(static *corev1.Pod) (types.UID, bool) {
	if k := r.node.kubelet.Load(); k != nil {
		return k.MirrorUID(static)
	}
	return "", false
}
