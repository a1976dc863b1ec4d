package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall checks that the whole program is shorter than 60 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 60 {
		t.Errorf("main.go has %d lines", lines)
	}
}

// TestPolicy runs the program: a Deployment of six is refused, and one of three runs.
func TestPolicy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dir, file) }()
	api := connect(t, file, ended)
	defer func() {
		api.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	poll(t, func() bool { // until the default namespace exists and writes are admitted
		_, err := typed.Deployments(api).Create(ctx, deployment(6))
		return err != nil && strings.Contains(err.Error(), `deployments.apps "web" is forbidden: five replicas are enough`)
	})
	poll(t, func() bool {
		_, err := typed.Deployments(api).Create(ctx, deployment(3))
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	poll(t, func() bool {
		d, err := typed.Deployments(api).Get(ctx, "default", "web")
		return err == nil && d.Status.AvailableReplicas == 3
	})
	if err := typed.Deployments(api).Delete(ctx, "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	poll(t, func() bool { // nothing keeps the nodes from stopping at once
		pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{})
		for _, pod := range pods {
			_ = typed.Pods(api).Delete(ctx, "default", pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		}
		return err == nil && len(pods) == 0
	})
}

func connect(t *testing.T, file string, ended <-chan error) *client.Client {
	t.Helper()
	var loaded *kubeconfig.Config
	poll(t, func() (ok bool) {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		var err error
		loaded, err = kubeconfig.Load(file)
		return err == nil
	})
	config, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
}

// poll calls done until it returns true.
func poll(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}
