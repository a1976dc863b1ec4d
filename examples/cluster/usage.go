package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/initialresources/usagering"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/plane"
	corev1 "k8s.io/api/core/v1"
)

// remembered is how far back usage counts for an estimate.
const remembered = 30 * 24 * time.Hour

// askTimeout bounds a question to a node: one that does not answer has no samples
// this time.
const askTimeout = 10 * time.Second

// initialResources returns the plugin that estimates resources from the usage that the nodes
// report while this process runs.
func (c *cluster) initialResources() plugins.Plugin {
	return plugins.Plugin{Name: initialresources.Name, New: func([]byte) (any, error) {
		usage, err := usagering.New(usagering.Config{Span: remembered})
		if err != nil {
			return nil, err
		}
		o, log := c.options.access.estimates, c.log.WithName("initialresources")
		c.meter = &meter{usage: usage, every: o.every, log: log}
		return initialresources.New(initialresources.Config{
			Source: usage, Percentile: o.percentile, NamespaceOnly: o.namespaceOnly, Log: log,
		})
	}}
}

// meter asks the nodes again and again what their containers use.
type meter struct {
	plane *plane.Plane
	usage *usagering.Ring
	every time.Duration
	log   logr.Logger
}

func (m *meter) run(ctx context.Context) error {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.read(ctx)
		}
	}
}

// read asks all nodes once.
func (m *meter) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for node := range m.plane.Caches.Nodes.All() {
		asked.Go(func() {
			if err := m.ask(ctx, node.Name); err != nil && ctx.Err() == nil {
				m.log.V(1).Info("a node does not tell what is used", "node", node.Name, "error", err.Error())
			}
		})
	}
	asked.Wait()
}

// ask adds what a node's containers use, by way of the API server.
func (m *meter) ask(ctx context.Context, node string) error {
	answer, err := m.plane.Client().Do(ctx, client.Request{Path: "/api/v1/nodes/" + node + "/proxy/stats/summary"})
	if err != nil {
		return err
	}
	var summary server.Summary
	if err := json.Unmarshal(answer.Body, &summary); err != nil {
		return err
	}
	for _, used := range summary.Pods {
		pod, ok := m.plane.Caches.Pods.Get(used.PodRef.Namespace + "/" + used.PodRef.Name)
		if !ok || string(pod.UID) != used.PodRef.UID {
			continue
		}
		for _, c := range used.Containers {
			m.add(pod, c)
		}
	}
	return nil
}

// add adds a sample, once both CPU and memory are known.
func (m *meter) add(pod *corev1.Pod, c server.ContainerStats) {
	image := imageOf(pod, c.Name)
	if image == "" || c.CPU == nil || c.CPU.UsageNanoCores == nil || c.Memory == nil || c.Memory.WorkingSetBytes == nil {
		return
	}
	m.usage.Add(usagering.Sample{
		Image: image, Namespace: pod.Namespace, Time: c.CPU.Time.Time,
		CPU: int64(*c.CPU.UsageNanoCores / 1e6), Memory: int64(*c.Memory.WorkingSetBytes),
	})
}

// imageOf is the image of a pod's container, as the pod names it.
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
