package kubeflags

import (
	"context"
	"encoding/json"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/admission/initialresources/usagering"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/plane"
)

// usageTimeout bounds a request to a node. A node that does not answer in time has no sample.
const usageTimeout = 10 * time.Second

// usageReader reads at an interval, from all nodes, what their containers use.
type usageReader struct {
	plane    *plane.Plane
	usage    *usagering.Ring
	interval time.Duration
	log      logr.Logger
}

func (u *usageReader) run(ctx context.Context) error {
	ticker := time.NewTicker(u.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			u.readAll(ctx)
		}
	}
}

// readAll reads all nodes once.
func (u *usageReader) readAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	var group sync.WaitGroup
	for node := range u.plane.Caches.Nodes.All() {
		group.Go(func() {
			if err := u.read(ctx, node.Name); err != nil && ctx.Err() == nil {
				u.log.V(1).Info("cannot read the usage of a node's containers", "node", node.Name, "error", err.Error())
			}
		})
	}
	group.Wait()
}

// read adds the usage of a node's containers, which the API server fetches from the node.
func (u *usageReader) read(ctx context.Context, node string) error {
	response, err := u.plane.Client().Do(ctx, client.Request{
		Path: "/api/v1/nodes/" + node + "/proxy/stats/summary", Query: url.Values{"only_cpu_and_memory": {"true"}},
	})
	if err != nil {
		return err
	}
	var summary server.Summary
	if err := json.Unmarshal(response.Body, &summary); err != nil {
		return err
	}
	for _, stats := range summary.Pods {
		pod, ok := u.plane.Caches.Pods.Get(stats.PodRef.Namespace + "/" + stats.PodRef.Name)
		if !ok || string(pod.UID) != stats.PodRef.UID {
			continue
		}
		for _, c := range stats.Containers {
			u.add(pod, c)
		}
	}
	return nil
}

// add adds a sample if both CPU and memory are known.
func (u *usageReader) add(pod *corev1.Pod, c server.ContainerStats) {
	image := imageOf(pod, c.Name)
	if image == "" || c.CPU == nil || c.CPU.UsageNanoCores == nil || c.Memory == nil || c.Memory.WorkingSetBytes == nil {
		return
	}
	u.usage.Add(usagering.Sample{
		Image: image, Namespace: pod.Namespace, Time: c.CPU.Time.Time,
		CPU: int64(*c.CPU.UsageNanoCores / 1e6), Memory: int64(*c.Memory.WorkingSetBytes),
	})
}

// imageOf returns the image of a pod's container as the pod names it.
func imageOf(pod *corev1.Pod, container string) string {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return list[i].Image
			}
		}
	}
	return ""
}
