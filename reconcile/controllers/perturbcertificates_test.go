package controllers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/clusterinfo"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/bootstrap"
	"github.com/planekit/planekit/reconcile/controllers/certificates"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func certificateScenarios() []scenario {
	return []scenario{
		{name: "signing requests", set: certifies},
		{name: "bootstrap tokens", set: invites},
	}
}

type signingRequest = certificatesv1.CertificateSigningRequest

// approvals writes decisions as the API server does: conditions alone, with their time.
type approvals struct{ *collection[*signingRequest] }

func (a approvals) UpdateApproval(ctx context.Context, r *signingRequest) (*signingRequest, error) {
	return a.edit(ctx, "approve", keyOf(r), r.ResourceVersion, r.UID, func(o *signingRequest) error {
		o.Status.Conditions = slices.Clone(r.Status.Conditions)
		stampConditions(o)
		return nil
	})
}

func stampConditions(r *signingRequest) {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = metav1.Now()
		}
	}
}

// reviews lets bootstrap tokens have certificates of nodes, and nodes their own.
type reviews struct{}

func (reviews) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	switch spec.ResourceAttributes.Subresource {
	case "nodeclient":
		return strings.HasPrefix(spec.User, "system:bootstrap:"), nil
	case "selfnodeclient":
		return slices.Contains(spec.Groups, "system:nodes"), nil
	}
	return false, fmt.Errorf("review of %+v", spec)
}

// ask returns a request of a user for the certificate of a node.
func ask(t *testing.T, name, signer, username, node string, usages []certificatesv1.KeyUsage, ips ...string) *signingRequest {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader))
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der := must[[]byte](t)(x509.CreateCertificateRequest(cryptorand.Reader, template, key))
	r := &signingRequest{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: usages, Username: username,
	}}
	if strings.HasPrefix(username, "system:node:") {
		r.Spec.Groups = []string{"system:nodes"}
	}
	return r
}

// certifies has nodes and others request certificates. A person decides about some requests, and a Node
// gets its address after it has asked for a certificate of it.
func certifies(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	const clients, servers = certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName
	usages := func(u ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
		return append(u, certificatesv1.UsageDigitalSignature)
	}
	client, server := usages(certificatesv1.UsageClientAuth), usages(certificatesv1.UsageServerAuth)
	a := &api{}
	requests := newCollection(a, "CertificateSigningRequest", func() *signingRequest { return &signingRequest{} })
	nodes := newCollection(a, "Node", func() *corev1.Node { return &corev1.Node{} })
	issued, failed := map[string]bool{}, map[string]string{} // guarded by the lock of the api
	has := func(r *signingRequest, kind certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
	}
	requests.check = func(old, now *signingRequest) {
		if now == nil {
			return
		}
		approved, denied := has(now, certificatesv1.CertificateApproved), has(now, certificatesv1.CertificateDenied)
		if len(now.Status.Certificate) > 0 && !approved || approved && denied || old != nil && len(old.Status.Certificate) > 0 && string(old.Status.Certificate) != string(now.Status.Certificate) {
			t.Errorf("%s: approved %t, denied %t, %d bytes of certificate", now.Name, approved, denied, len(now.Status.Certificate))
		}
		if len(now.Status.Certificate) > 0 {
			issued[now.Name] = true
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				failed[now.Name] = c.Reason + ": " + c.Message
			}
		}
	}
	decide := func(name string, kind certificatesv1.RequestConditionType) {
		requests.alter(t, name, func(r *signingRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
			stampConditions(r)
		})
	}
	authority := must[*pki.Authority](t)(pki.New())
	garbage := ask(t, "garbage", clients, "jane", "a", client)
	garbage.Spec.Request = []byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
	put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	put(requests, ask(t, "first", clients, "system:bootstrap:abcdef", "a", client))
	put(requests, garbage)
	return stage{
		api: a,
		run: func(l lag) *process {
			return launch(t, func(ctx context.Context) []controllers.Runner {
				copies := func() localcache.Cache[*signingRequest] { return follow(ctx, requests, l) }
				return []controllers.Runner{
					must[*certificates.Approver](t)(certificates.NewApprover(certificates.ApproverConfig{Requests: copies(), Writer: approvals{requests}, Reviewer: reviews{}})),
					must[*certificates.ServingApprover](t)(certificates.NewServingApprover(certificates.ServingApproverConfig{Requests: copies(), Nodes: follow(ctx, nodes, l), Writer: approvals{requests}})),
					must[*certificates.Signer](t)(certificates.NewSigner(certificates.SignerConfig{Requests: copies(), Writer: requests, CA: authority.Certificate, Key: authority.Key})),
					must[*certificates.Cleaner](t)(certificates.NewCleaner(certificates.CleanerConfig{Requests: copies(), Writer: requests})),
				}
			})
		},
		steps: []func(){
			func() {
				put(requests, ask(t, "own", clients, "system:node:a", "a", client))
				put(requests, ask(t, "serving", servers, "system:node:a", "a", server, "10.0.0.1"))
				put(requests, ask(t, "stolen", servers, "system:node:b", "a", server, "10.0.0.1"))
				put(requests, ask(t, "others", servers, "system:node:a", "a", server, "10.0.0.2"))
				put(requests, ask(t, "pending", certificatesv1.KubeAPIServerClientSignerName, "jane", "a", client))
				put(requests, ask(t, "denied", certificatesv1.KubeAPIServerClientSignerName, "jane", "a", client))
				put(requests, ask(t, "by hand", certificatesv1.KubeAPIServerClientSignerName, "jane", "a", client))
				put(requests, ask(t, "wrong", certificatesv1.KubeAPIServerClientSignerName, "jane", "a", server))
				put(requests, ask(t, "elsewhere", "example.com/ca", "jane", "a", client))
			},
			func() {
				nodes.alter(t, "a", func(n *corev1.Node) {
					n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
				})
				for _, name := range []string{"garbage", "by hand", "wrong", "elsewhere"} {
					decide(name, certificatesv1.CertificateApproved)
				}
				decide("denied", certificatesv1.CertificateDenied)
			},
		},
		wanted: func() {
			a.mu.Lock()
			have, wrong := fmt.Sprint(issued), fmt.Sprint(failed)
			a.mu.Unlock()
			if want := "map[by hand:true first:true own:true serving:true]"; have != want {
				t.Errorf("issued %s, want %s", have, want)
			}
			if !strings.HasPrefix(wrong, `map[garbage:SignerValidationFailure: unable to parse csr "garbage": `) || !strings.HasSuffix(wrong, " wrong:SignerValidationFailure: invalid usage for client certificate: server auth]") {
				t.Errorf("failed %s", wrong)
			}
			for _, r := range requests.list() {
				if len(r.Status.Certificate) > 0 && time.Since(r.Status.Conditions[0].LastUpdateTime.Time) > time.Hour+time.Minute {
					t.Errorf("%s is still there", r.Name)
				}
			}
			time.Sleep(25 * time.Hour)
			for _, r := range requests.list() {
				t.Errorf("%s is there after a day", r.Name)
			}
		},
	}
}

// invites has tokens come, change and expire.
func invites(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	a := &api{}
	configMaps := newCollection(a, "ConfigMap", func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	secrets := newCollection(a, "Secret", func() *corev1.Secret { return &corev1.Secret{} })
	token := func(id string, life time.Duration) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken}
		s.Data = map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true")}
		if life > 0 {
			s.Data["expiration"] = []byte(time.Now().Add(life).Format(time.RFC3339))
		}
		return s
	}
	secrets.check = func(old, now *corev1.Secret) {
		if now != nil {
			return
		}
		if end, err := time.Parse(time.RFC3339, string(old.Data["expiration"])); err == nil && time.Now().Before(end) {
			t.Errorf("%s was deleted %v before its end", old.Name, time.Until(end))
		}
	}
	put(configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: map[string]string{
		"kubeconfig": "one", "jws-kubeconfig-gone": "signature",
	}})
	put(secrets, token("stays1", 0))
	put(secrets, token("leaves", time.Minute))
	return stage{
		api: a,
		run: func(l lag) *process {
			return launch(t, func(ctx context.Context) []controllers.Runner {
				copies := follow(ctx, secrets, l)
				return []controllers.Runner{
					must[*bootstrap.Signer](t)(bootstrap.NewSigner(bootstrap.SignerConfig{
						ConfigMaps: follow(ctx, configMaps, l), Secrets: copies, Writer: configMaps,
						SecretsByNamespace: localcache.Scan(copies, controllers.ByNamespace[*corev1.Secret]),
					})),
					must[*bootstrap.TokenCleaner](t)(bootstrap.NewTokenCleaner(bootstrap.TokenCleanerConfig{Secrets: follow(ctx, secrets, l), Writer: secrets})),
				}
			})
		},
		steps: []func(){
			func() { put(secrets, token("stays2", 0)); put(secrets, token("longer", 40*time.Second)) },
			func() {
				configMaps.alter(t, "kube-public/cluster-info", func(m *corev1.ConfigMap) { m.Data["kubeconfig"] = "two" })
				torn := token("broken", 0)
				torn.Data["expiration"] = []byte("tomorrow")
				put(secrets, torn)
			},
		},
		wanted: func() {
			var left []string
			for _, s := range secrets.list() {
				left = append(left, s.Name)
			}
			if fmt.Sprint(left) != "[bootstrap-token-stays1 bootstrap-token-stays2]" {
				t.Errorf("tokens %v", left)
			}
			data := configMaps.list()[0].Data
			for _, id := range []string{"stays1", "stays2"} {
				if text, err := clusterinfo.Verify(data, id, "0123456789abcdef"); err != nil || text != "two" {
					t.Errorf(`Verify() for %s = %q, %v, want "two"`, id, text, err)
				}
			}
			if len(data) != 3 {
				t.Errorf("cluster-info has %v", data)
			}
		},
	}
}
