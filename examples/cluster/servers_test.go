package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
)

// startServerProcess runs a control plane on an external etcd in a process of its own, until the test ends.
func startServerProcess(t *testing.T, dir string, etcd []string) (*running, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "cluster"), append([]string{
		"--role", "server", "--data-dir", dir, "--listen", "127.0.0.1:0", "--metrics-server=false",
		"--leader-elect-lease-duration", "8s", "--leader-elect-renew-deadline", "6s", "--leader-elect-retry-period", "1s",
	}, etcd...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ready in ") {
		t.Fatalf("the server said %q: %v", lines.Text(), lines.Err())
	}
	go func() { // ends with the process
		for lines.Scan() {
		}
	}()
	return &running{config: filepath.Join(dir, "admin.kubeconfig")}, cmd
}

// copyAuthorities makes a server of the same control plane as the one on from.
func copyAuthorities(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"ca.crt", "ca.key", "sa.key", "front-proxy/ca.crt", "front-proxy/ca.key"} {
		data, err := os.ReadFile(filepath.Join(from, "pki", name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(to, "pki", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServerKilled kills the one of three servers on one etcd that leads. Clients of the others go on without an
// error, and one of them takes over the controllers and the scheduler.
func TestServerKilled(t *testing.T) {
	etcd, flags := externalEtcd(t)
	defer etcd.Close()
	first := t.TempDir()
	_, leader := startServerProcess(t, first, flags)
	var others []*client.Client
	for range 2 {
		dir := t.TempDir()
		copyAuthorities(t, first, dir)
		other, _ := startServerProcess(t, dir, flags)
		others = append(others, other.client(t))
	}
	api := others[0]
	leases := typed.Leases(api)
	holder := func(ctx context.Context, name string) string {
		lease, err := leases.Get(ctx, metav1.NamespaceSystem, name)
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	held := map[string]string{"kube-controller-manager": "", "kube-scheduler": ""}
	for name := range held {
		awaited(t, name+" leads", func(ctx context.Context) string {
			if held[name] = holder(ctx, name); held[name] == "" {
				return "nobody has the lease"
			}
			return ""
		})
	}
	if err := leader.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // across the change of leaders
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("written-", i)}}
		mustCreate(t, typed.ConfigMaps(others[i%2]), object)
		<-time.After(20 * time.Millisecond)
	}
	for name, before := range held {
		awaited(t, name+" is led by another server", func(ctx context.Context) string {
			if now := holder(ctx, name); now == "" || now == before {
				return "the leader is " + now
			}
			return ""
		})
	}
	labels := map[string]string{"app": "web"}
	replicas := int32(1)
	mustCreate(t, typed.Deployments(api), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf("", "nginx").Spec},
		},
	})
	awaited(t, "a pod is made, and looked at by the scheduler", func(ctx context.Context) string {
		pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{})
		if err != nil || len(pods) == 0 || len(pods[0].Status.Conditions) == 0 {
			return fmt.Sprint(len(pods), " pods, ", err)
		}
		if c := pods[0].Status.Conditions[0]; c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			return fmt.Sprint(c)
		}
		return ""
	})
}
