package peer

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
)

// Stock holds the ports and files of the stock components.
type Stock struct {
	// Config is the kubeconfig of the administrator, Token the token in it.
	Config, Token string
	// URL is the URL of kube-apiserver, Etcd that of etcd.
	URL, Etcd string

	// Tokens is the file that contains Token.
	Tokens string
	// Key is the file of the key that signs service account tokens.
	Key string

	work, peer, port string
}

// NewStock writes the files into work and chooses the ports.
func NewStock(work string) (*Stock, error) {
	var ports [3]string
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	s := &Stock{
		work: work, Etcd: "http://127.0.0.1:" + ports[0], peer: "http://127.0.0.1:" + ports[1],
		port: ports[2], URL: "https://127.0.0.1:" + ports[2], Token: "a-token-for-this-run-only",
		Tokens: filepath.Join(work, "tokens.csv"), Key: filepath.Join(work, "sa.key"), Config: filepath.Join(work, "kubeconfig"),
	}
	if err := os.WriteFile(s.Tokens, []byte(s.Token+`,admin,,"system:masters"`+"\n"), 0o600); err != nil {
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
	if err := os.WriteFile(s.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	config := &kubeconfig.Config{
		CurrentContext: "stock",
		Clusters:       map[string]kubeconfig.Cluster{"stock": {Server: s.URL, InsecureSkipTLSVerify: true}},
		Users:          map[string]kubeconfig.User{"stock": {Token: s.Token}},
		Contexts:       map[string]kubeconfig.Context{"stock": {Cluster: "stock", User: "stock"}},
	}
	return s, config.Write(s.Config)
}

// EtcdArguments returns the arguments of etcd.
func (s *Stock) EtcdArguments() []string {
	return []string{
		"--data-dir", filepath.Join(s.work, "etcd"), "--log-level", "error",
		"--listen-client-urls", s.Etcd, "--advertise-client-urls", s.Etcd, "--listen-peer-urls", s.peer,
		"--initial-advertise-peer-urls", s.peer, "--initial-cluster", "default=" + s.peer,
	}
}

// APIServerArguments returns the arguments of a kube-apiserver on that etcd.
func (s *Stock) APIServerArguments() []string {
	return []string{
		"--etcd-servers", s.Etcd, "--bind-address", "127.0.0.1", "--secure-port", s.port,
		"--cert-dir", filepath.Join(s.work, "certs"), "--token-auth-file", s.Tokens, "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://stock",
		"--service-account-key-file", s.Key, "--service-account-signing-key-file", s.Key,
	}
}

// plugins are kube-apiserver's default plugins that are not needed to serve pods: all but
// NamespaceLifecycle and ServiceAccount.
const plugins = "CertificateApproval,CertificateSigning,CertificateSubjectRestriction,ClusterTrustBundleAttest,DefaultIngressClass," +
	"DefaultStorageClass,DefaultTolerationSeconds,JobValidation,LimitRanger,MutatingAdmissionPolicy,MutatingAdmissionWebhook," +
	"NodeDeclaredFeatureValidator,PersistentVolumeClaimResize,PodGroupProtection,PodGroupWorkloadExists,PodResizeValidator,PodSecurity," +
	"PodTopologyLabels,Priority,ResourceQuota,RuntimeClass,StorageObjectInUseProtection,TaintNodesByCondition,ValidatingAdmissionPolicy," +
	"ValidatingAdmissionWebhook"

// LeastAdmission returns further arguments, which leave kube-apiserver only the admission of
// namespaces and service accounts.
func LeastAdmission() []string { return []string{"--disable-admission-plugins", plugins} }

// AwaitReady waits until kube-apiserver reports that it is ready.
func (s *Stock) AwaitReady(ctx context.Context) error {
	// The server signs its own certificate at each start.
	web := http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer web.CloseIdleConnections()
	return Poll(ctx, func() (bool, error) {
		answer, err := web.Get(s.URL + "/readyz")
		if err != nil {
			return false, nil // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}
