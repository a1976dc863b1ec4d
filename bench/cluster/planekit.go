package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// planekit measures one life of a planekit cluster: cold start, the command,
// stop, warm start.
func planekit(ctx context.Context, t *table, bin, work, runtime string) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	config := filepath.Join(work, "kubeconfig")
	start := func(kind string) (*peer.Process, error) {
		begin := time.Now()
		p, err := peer.Launch(filepath.Join(work, kind+".log"), filepath.Join(bin, "cluster"),
			"--data-dir", filepath.Join(work, "data"), "--kubeconfig", config, "--listen", "127.0.0.1:0", "--runtime", runtime)
		if err != nil {
			return nil, err
		}
		if _, err := p.AwaitLine(ctx, "ready in "); err != nil {
			_ = p.Stop()
			return nil, err
		}
		t.since("planekit, "+runtime+": start to ready, "+kind, begin)
		return p, nil
	}
	p, err := start("cold")
	if err != nil {
		return err
	}
	if err := command(ctx, t, bin, config, "planekit, "+runtime, corev1.PodRunning); err != nil {
		_ = p.Stop()
		return err
	}
	resident, err := p.Resident()
	if err != nil {
		return err
	}
	t.add("planekit, "+runtime+": resident with three pods", "MiB", resident)
	if err := p.Stop(); err != nil {
		return err
	}
	if p, err = start("warm"); err != nil {
		return err
	}
	return p.Stop()
}

// command runs planectl run and takes the times until three pods exist, are
// bound to nodes, and have reached phase.
func command(ctx context.Context, t *table, bin, config, who string, phase corev1.PodPhase) error {
	api, err := kubeconfig.Connect(config)
	if err != nil {
		return err
	}
	pods := typed.Pods(api)
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "planectl"), "--kubeconfig", config, "run", "nginx", "--image=nginx", "--replicas=3")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		done func(*corev1.Pod) bool
	}{
		{"exist", func(*corev1.Pod) bool { return true }},
		{"are bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }},
		{"are " + string(phase), func(p *corev1.Pod) bool { return p.Status.Phase == phase }},
	} {
		if step.name == "are " {
			continue // the stock side has no kubelet here
		}
		err := peer.Poll(ctx, func() (bool, error) {
			list, _, err := pods.List(ctx, "default", metav1.ListOptions{})
			count := 0
			for _, pod := range list {
				if step.done(pod) {
					count++
				}
			}
			return count == 3, err
		})
		if err != nil {
			return err
		}
		t.since(who+": command until three pods "+step.name, begin)
	}
	return nil
}
