package stock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles the stock programs, as bench does, and returns their directory.
func Build(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin", "stock")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=grpcnotrace",
		"-o", bin+string(filepath.Separator), "./cmd/etcd", "./cmd/kube-apiserver", "./cmd/kube-controller-manager", "./cmd/kube-scheduler", "./cmd/kubelet")
	cmd.Dir, cmd.Env = filepath.Join(root, "bench"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the stock programs: %w\n%s", err, out)
	}
	return bin, nil
}

// BuildCoreDNS compiles stock CoreDNS and returns its path.
func BuildCoreDNS(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "stock", "coredns")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=grpcnotrace", "-o", program, ".")
	cmd.Dir, cmd.Env = filepath.Join(root, "bench", "cmd", "coredns"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build CoreDNS: %w\n%s", err, out)
	}
	return program, nil
}

// Version is the Kubernetes release of the stock programs.
func Version(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join(root, "bench")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("version of k8s.io/kubernetes: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// repository returns the parent directory of the test's module.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bench", "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no bench/go.mod above the working directory")
}
