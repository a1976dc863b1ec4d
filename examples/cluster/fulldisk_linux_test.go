package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFullDisk: when another program has filled the disk a cluster refuses writes with
// 507, is alive and not ready, and serves reads; all it has acknowledged is there. It
// goes on by itself when there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=600m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	cluster := start(t, dir, "--nodes", "1")
	api := cluster.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	create := func(i int) error {
		_, err := typed.ConfigMaps(api).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}})
		return err
	}
	made := 0
	filled := make(chan error, 1)
	filler := filepath.Join(dir, "filler")
	go func() { filled <- os.WriteFile(filler, make([]byte, 600<<20), 0o600) }()
	var err error
	for err == nil && ctx.Err() == nil {
		if err = create(made); err == nil {
			made++
		}
	}
	if err := <-filled; !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != http.StatusInsufficientStorage {
		t.Errorf("a write on a full disk, after %d: %v", made, err)
	}
	kept := func() {
		t.Helper()
		list, _, err := typed.ConfigMaps(api).List(ctx, "default", metav1.ListOptions{})
		if err != nil || len(list) < made {
			t.Errorf("%d objects, error %v, of %d acknowledged", len(list), err, made)
		}
		if !healthy(ctx, api, "/livez") || healthy(ctx, api, "/readyz") || healthy(ctx, api, "/readyz/etcd-disk") || !healthy(ctx, api, "/readyz/storage") {
			t.Error("/livez or /readyz does not say how it is")
		}
	}
	kept()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for !healthy(ctx, api, "/readyz") && ctx.Err() == nil {
	}
	if err := create(made + 1); err != nil {
		t.Errorf("a write when there is room: %v", err)
	}
	cluster.stop()
}
