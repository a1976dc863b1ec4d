package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// minDuration is the shortest life of a certificate that the API accepts.
	minDuration = 10 * time.Minute
	// firstPoll and lastPoll bound the time between two looks at a request.
	firstPoll, lastPoll = 50 * time.Millisecond, 5 * time.Second
	// saidAfter is the time after which a request without a decision is logged.
	saidAfter = 10 * time.Second
)

// terms describe a certificate to ask for.
type terms struct {
	signer   string
	usage    certificatesv1.KeyUsage
	template x509.CertificateRequest
}

// userOf returns the user of a node.
func userOf(node string) string { return user.NodePrefix + node }

func (j *Joiner) subject() pkix.Name {
	return pkix.Name{CommonName: userOf(j.config.Node), Organization: []string{user.Nodes}}
}

func (j *Joiner) clientTerms() terms {
	return terms{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth, x509.CertificateRequest{Subject: j.subject()}}
}

// servingTerms returns false while the node has no addresses.
func (j *Joiner) servingTerms() (terms, bool) {
	if j.config.Addresses == nil {
		return terms{}, false
	}
	addresses, names := j.config.Addresses()
	if len(addresses)+len(names) == 0 {
		return terms{}, false
	}
	t := terms{certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth, x509.CertificateRequest{Subject: j.subject()}}
	for _, address := range addresses {
		t.template.IPAddresses = append(t.template.IPAddresses, net.IP(address.Unmap().AsSlice()))
	}
	t.template.DNSNames = slices.Clone(names)
	return t, true
}

// covered reports whether a certificate has all names of the terms.
func (t terms) covered(leaf *x509.Certificate) bool {
	for _, name := range t.template.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return false
		}
	}
	for _, ip := range t.template.IPAddresses {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// obtain sends a signing request with a new key and waits for its certificate. byToken says that api acts
// by the token.
func (j *Joiner) obtain(ctx context.Context, api *client.Client, byToken bool, t terms) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &t.template, key)
	if err != nil {
		return nil, err
	}
	wanted := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: t.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, t.usage},
		},
	}
	if j.config.Duration > 0 {
		wanted.Spec.ExpirationSeconds = new(int32(min(int64(j.config.Duration/time.Second), math.MaxInt32)))
	}
	requests := typed.CertificateSigningRequests(api)
	sent, err := patiently(ctx, errLagging, func() (*certificatesv1.CertificateSigningRequest, error) {
		sent, err := send(ctx, func(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
			return requests.Create(ctx, wanted)
		})
		if byToken && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)) {
			return nil, lagging{j.refused(err, byToken)}
		}
		if err != nil {
			return nil, j.refused(err, byToken)
		}
		return sent, nil
	})
	if err != nil {
		return nil, err
	}
	issued, err := j.await(ctx, requests, byToken, sent)
	if err != nil {
		return nil, err
	}
	return j.accept(issued, key)
}

// send sends one request, for a limited time.
func send[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// refused explains why the server did not take a request.
func (j *Joiner) refused(err error, byToken bool) error {
	id, _, _ := bootstraptoken.Parse(j.config.Token)
	switch {
	case apierrors.IsUnauthorized(err) && byToken:
		return fmt.Errorf("%w: %s does not accept the token %s: it has expired or was deleted, or is not meant for authentication", ErrToken, j.config.Server, id)
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return fmt.Errorf("request a certificate: %w", err)
	}
	return j.explain(err)
}

// await looks at a request until it has a certificate, was refused, or is gone. It goes on while the
// server is away.
func (j *Joiner) await(ctx context.Context, requests client.Resource[*certificatesv1.CertificateSigningRequest], byToken bool, sent *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	begun, said := time.Now(), false
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		r, err := send(ctx, func(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
			return requests.Get(ctx, "", sent.Name)
		})
		switch {
		case apierrors.IsNotFound(err) || err == nil && r.UID != sent.UID:
			return nil, fmt.Errorf("%w: request %s was deleted before it had a certificate", ErrDenied, sent.Name)
		case apierrors.IsUnauthorized(err):
			return nil, j.refused(err, byToken)
		case err == nil && len(r.Status.Certificate) > 0:
			return r, nil
		case err == nil:
			if err := refusal(r); err != nil {
				return nil, err
			}
		}
		if !said && time.Since(begun) > saidAfter {
			said = true
			j.config.Log.Info("waits for a certificate", "request", sent.Name, "signer", sent.Spec.SignerName)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("request %s has no certificate after %v: %w", sent.Name, time.Since(begun).Round(time.Second), context.Cause(ctx))
		case <-time.After(poll):
		}
	}
}

// refusal returns an error if a request was denied or failed.
func refusal(r *certificatesv1.CertificateSigningRequest) error {
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return fmt.Errorf("%w: request %s was denied: %s: %s", ErrDenied, r.Name, c.Reason, c.Message)
		case certificatesv1.CertificateFailed:
			return fmt.Errorf("%w: request %s failed: %s: %s", ErrDenied, r.Name, c.Reason, c.Message)
		}
	}
	return nil
}

// accept checks what the cluster has issued.
func (j *Joiner) accept(r *certificatesv1.CertificateSigningRequest, key *ecdsa.PrivateKey) (*pair, error) {
	p, err := newPair(r.Status.Certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of request %s: %w", r.Name, err)
	}
	leaf, now := p.tls.Leaf, time.Now()
	switch {
	case leaf.Subject.CommonName != userOf(j.config.Node):
		return nil, fmt.Errorf("the certificate of request %s is that of %s", r.Name, leaf.Subject.CommonName)
	case now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("%w: the clock says %s, and the new certificate is valid from %s", ErrClock, stamp(now), stamp(leaf.NotBefore))
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("%w: the clock says %s, and the new certificate expired at %s", ErrClock, stamp(now), stamp(leaf.NotAfter))
	}
	return p, nil
}
