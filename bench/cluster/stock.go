package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stock measures etcd, kube-apiserver, kube-controller-manager and kube-scheduler as far as they
// work without a kubelet: up to pods bound to a node.
func stock(ctx context.Context, t *table, bin, work string) (err error) {
	var running []*peer.Process
	defer func() {
		for i := len(running) - 1; i >= 0; i-- {
			_ = running[i].Stop()
		}
	}()
	run := func(name string, arguments ...string) error {
		p, err := peer.Launch(filepath.Join(work, name+".log"), filepath.Join(bin, name), arguments...)
		if err == nil {
			running = append(running, p)
		}
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	s, err := peer.NewStock(work)
	if err != nil {
		return err
	}

	begin := time.Now()
	if err := run("etcd", s.EtcdArguments()...); err != nil {
		return err
	}
	if err := run("kube-apiserver", s.APIServerArguments()...); err != nil {
		return err
	}
	if err := s.AwaitReady(ctx); err != nil {
		return err
	}
	t.since("stock: etcd and kube-apiserver, start to ready", begin)

	if err := run("kube-controller-manager", "--kubeconfig", s.Config, "--service-account-private-key-file", s.Key,
		"--secure-port", "0", "--leader-elect=false", "--use-service-account-credentials=false", "--controllers", "deployment,replicaset,serviceaccount"); err != nil {
		return err
	}
	if err := run("kube-scheduler", "--kubeconfig", s.Config, "--secure-port", "0", "--leader-elect=false"); err != nil {
		return err
	}
	if err := addNode(ctx, s.Config); err != nil {
		return err
	}
	if err := command(ctx, t, bin, s.Config, "stock", ""); err != nil {
		return err
	}
	total := 0.0
	for _, p := range running {
		resident, err := p.Resident()
		if err != nil {
			return err
		}
		total += resident
	}
	t.add("stock: resident, four processes, no kubelet", "MiB", total)
	return nil
}

// addNode registers a node as a kubelet would, and waits for the service
// account that pods need.
func addNode(ctx context.Context, config string) error {
	api, err := kubeconfig.Connect(config)
	if err != nil {
		return err
	}
	defer api.Close()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node, err := typed.Nodes(api).Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	if err != nil {
		return err
	}
	// Without a node lifecycle controller no other component removes the taint.
	node.Spec.Taints = nil
	if node, err = typed.Nodes(api).Update(ctx, node); err != nil {
		return err
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := typed.Nodes(api).UpdateStatus(ctx, node); err != nil {
		return err
	}
	return peer.Poll(ctx, func() (bool, error) {
		_, err := typed.ServiceAccounts(api).Get(ctx, "default", "default")
		return err == nil, nil
	})
}
