package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// healthy reports whether an endpoint answers that all is well.
func healthy(ctx context.Context, api *client.Client, path string) bool {
	_, err := api.Do(ctx, client.Request{Method: http.MethodGet, Path: path})
	return err == nil
}

// TestEtcdIsDown checks that a server without its etcd is alive and not ready, that writes fail
// before their clients time out, and that the server continues when the etcd is back.
func TestEtcdIsDown(t *testing.T) {
	etcd, flags := externalEtcd(t)
	cluster := start(t, t.TempDir(), append(flags, "--nodes", "0")...)
	api := cluster.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !healthy(ctx, api, "/livez") || !healthy(ctx, api, "/readyz") {
		t.Error("not healthy to begin with")
	}
	config := etcd.Config()
	etcd.Close()
	if !healthy(ctx, api, "/livez") {
		t.Error("without etcd the server is not alive")
	}
	if healthy(ctx, api, "/readyz") {
		t.Error("without etcd the server is ready")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	_, err := typed.Namespaces(api).Create(ctx, namespace)
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code < http.StatusInternalServerError {
		t.Errorf("a write without etcd: %v", err)
	}
	again, err := embed.StartEtcd(&config)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for !healthy(ctx, api, "/readyz") && ctx.Err() == nil {
	}
	if _, err := typed.Namespaces(api).Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("a write when etcd is back: %v", err)
	}
	cluster.stop()
}
