package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stock measures etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler doing what they can without a node: up to pods bound to one.
func stock(ctx context.Context, t *table, bin, work string) (err error) {
	var running []*process
	defer func() {
		for i := len(running) - 1; i >= 0; i-- {
			_ = running[i].stop()
		}
	}()
	run := func(name string, arguments ...string) error {
		p, err := launch(filepath.Join(work, name+".log"), filepath.Join(bin, name), arguments...)
		if err == nil {
			running = append(running, p)
		}
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	s, err := newStockFiles(work)
	if err != nil {
		return err
	}

	begin := time.Now()
	if err := run("etcd", "--data-dir", filepath.Join(work, "etcd"), "--log-level", "error",
		"--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd, "--listen-peer-urls", s.peer,
		"--initial-advertise-peer-urls", s.peer, "--initial-cluster", "default="+s.peer); err != nil {
		return err
	}
	if err := run("kube-apiserver", "--etcd-servers", s.etcd, "--bind-address", "127.0.0.1", "--secure-port", s.port,
		"--cert-dir", filepath.Join(work, "certs"), "--token-auth-file", s.tokens, "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://stock",
		"--service-account-key-file", s.key, "--service-account-signing-key-file", s.key); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	t.since("stock: etcd and kube-apiserver, start to ready", begin)

	if err := run("kube-controller-manager", "--kubeconfig", s.config, "--service-account-private-key-file", s.key,
		"--secure-port", "0", "--leader-elect=false", "--use-service-account-credentials=false", "--controllers", "deployment,replicaset,serviceaccount"); err != nil {
		return err
	}
	if err := run("kube-scheduler", "--kubeconfig", s.config, "--secure-port", "0", "--leader-elect=false"); err != nil {
		return err
	}
	if err := s.addNode(ctx); err != nil {
		return err
	}
	if err := command(ctx, t, bin, s.config, "stock", ""); err != nil {
		return err
	}
	total := 0.0
	for _, p := range running {
		resident, err := p.resident()
		if err != nil {
			return err
		}
		total += resident
	}
	t.add("stock: resident, four processes, no kubelet", "MiB", total)
	return nil
}

// stockFiles are the ports and files that the stock components are started with.
type stockFiles struct {
	etcd, peer, port, tokens, key, config string
}

func newStockFiles(work string) (*stockFiles, error) {
	var ports [3]string
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	s := &stockFiles{
		etcd: "http://127.0.0.1:" + ports[0], peer: "http://127.0.0.1:" + ports[1], port: ports[2],
		tokens: filepath.Join(work, "tokens.csv"), key: filepath.Join(work, "sa.key"), config: filepath.Join(work, "kubeconfig"),
	}
	const token = "a-token-for-this-run-only"
	if err := os.WriteFile(s.tokens, []byte(token+`,admin,,"system:masters"`+"\n"), 0o600); err != nil {
		return nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	config := &kubeconfig.Config{
		CurrentContext: "stock",
		Clusters:       map[string]kubeconfig.Cluster{"stock": {Server: "https://127.0.0.1:" + s.port, InsecureSkipTLSVerify: true}},
		Users:          map[string]kubeconfig.User{"stock": {Token: token}},
		Contexts:       map[string]kubeconfig.Context{"stock": {Cluster: "stock", User: "stock"}},
	}
	return s, config.Write(s.config)
}

func (s *stockFiles) awaitReady(ctx context.Context) error {
	// The server signs its own certificate at each start.
	web := http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer web.CloseIdleConnections()
	return poll(ctx, func() (bool, error) {
		answer, err := web.Get("https://127.0.0.1:" + s.port + "/readyz")
		if err != nil {
			return false, nil // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// addNode registers a node as a kubelet would, and waits for the service
// account that pods need.
func (s *stockFiles) addNode(ctx context.Context) error {
	api, err := connect(s.config)
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
	// Without a node lifecycle controller nobody else takes the taint away.
	node.Spec.Taints = nil
	if node, err = typed.Nodes(api).Update(ctx, node); err != nil {
		return err
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := typed.Nodes(api).UpdateStatus(ctx, node); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, err := typed.ServiceAccounts(api).Get(ctx, "default", "default")
		return err == nil, nil
	})
}
