package certificates

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// legacySigner is the signer of requests of versions of the API before v1.
const legacySigner = "kubernetes.io/legacy-unknown"

const (
	// defaultDuration and minDuration bound the duration of certificates, as in
	// kube-controller-manager.
	defaultDuration, minDuration = 365 * 24 * time.Hour, 10 * time.Minute
	// backdate allows for clocks that are behind. Certificates that last longer than shortDuration
	// end that much earlier.
	backdate, shortDuration = 5 * time.Minute, 8 * time.Hour
	// serialBits is the size of serial numbers.
	serialBits = 128
)

// SignerConfig configures a Signer. All fields before ServingCA are required.
type SignerConfig struct {
	Requests localcache.Cache[*certificatesv1.CertificateSigningRequest]
	Writer   controllers.StatusUpdater[*certificatesv1.CertificateSigningRequest]
	// CA signs with Key.
	CA  *x509.Certificate
	Key crypto.Signer
	// ServingCA signs with ServingKey for the signer kubernetes.io/kubelet-serving. Nil means CA and Key:
	// clients that trust CA then take a node for any server whose name or address it claims.
	ServingCA  *x509.Certificate
	ServingKey crypto.Signer
	// Names refuses requests for serving certificates with what no node can have.
	Names NodeNames
	// Duration is the longest time for which a certificate is valid. Zero means a year.
	Duration time.Duration
	// Workers is the number of requests processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Signer issues certificates for approved requests of the signers kubernetes.io/kube-apiserver-client,
// kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving and
// kubernetes.io/legacy-unknown. The first three have rules, by which a request fails.
//
// A certificate has the subject, names and addresses of the request, and the usages of the object, but
// no extension of the request. It is valid from five minutes before now, for the duration that the
// object wants if that is not longer than Config.Duration, and never longer than the authority.
type Signer struct {
	*reconcile.Controller[string]
	config SignerConfig
}

// NewSigner returns a controller, or an error if config lacks a required field. It starts nothing.
func NewSigner(config SignerConfig) (*Signer, error) {
	err := loop.Required("certificates: SignerConfig", "Requests", config.Requests, "Writer", config.Writer, "Key", config.Key)
	switch {
	case err != nil:
		return nil, err
	case config.CA == nil:
		return nil, errors.New("certificates: SignerConfig: no CA")
	case (config.ServingCA == nil) != (config.ServingKey == nil):
		return nil, errors.New("certificates: SignerConfig: ServingCA and ServingKey go together")
	case config.Duration < 0:
		return nil, fmt.Errorf("certificates: SignerConfig: Duration %v is negative", config.Duration)
	case config.Duration == 0:
		config.Duration = defaultDuration
	}
	if config.ServingCA == nil {
		config.ServingCA, config.ServingKey = config.CA, config.Key
	}
	c := &Signer{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "csrsigning", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Requests, reconcile.Itself(localcache.KeyOf[*request]))
	return c, nil
}

// rules hold what each signer requires of a request.
var rules = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        checkClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: checkNodeClient,
	certificatesv1.KubeletServingSignerName:             checkNodeServing,
	legacySigner:                                        func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func (c *Signer) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	r, ok := c.config.Requests.Get(name)
	if !ok || len(r.Status.Certificate) > 0 || !has(r, certificatesv1.CertificateApproved) ||
		has(r, certificatesv1.CertificateDenied) || has(r, certificatesv1.CertificateFailed) {
		return reconcile.Result{}, nil
	}
	check, mine := rules[r.Spec.SignerName]
	if !mine {
		return reconcile.Result{}, nil
	}
	out := r.DeepCopy()
	ca, key := c.config.CA, c.config.Key
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		ca, key = c.config.ServingCA, c.config.ServingKey
		check = func(parsed *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
			return cmp.Or(checkNodeServing(parsed, usages), c.config.Names.check(parsed))
		}
	}
	template, err := template(r, check)
	if err != nil {
		out.Status.Conditions = append(out.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message: err.Error(), LastUpdateTime: metav1.Now(),
		})
	} else if out.Status.Certificate, err = c.issue(ca, key, template, r.Spec.ExpirationSeconds); err != nil {
		return reconcile.Result{}, fmt.Errorf("sign request %s: %w", name, err)
	}
	if _, err := c.config.Writer.UpdateStatus(ctx, out); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("update the status of request %s: %w", name, err)
	}
	return reconcile.Result{}, nil
}

// template returns the certificate that a request asks for, without its times, or why its signer does
// not issue it.
func template(r *request, check func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error) (*x509.Certificate, error) {
	parsed, err := parse(r.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("unable to parse csr %q: %w", r.Name, err)
	}
	if err := check(parsed, r.Spec.Usages); err != nil {
		return nil, err
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	usage, extended, err := keyUsages(r.Spec.Usages)
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		Subject: parsed.Subject, DNSNames: parsed.DNSNames, IPAddresses: parsed.IPAddresses,
		EmailAddresses: parsed.EmailAddresses, URIs: parsed.URIs,
		PublicKeyAlgorithm: parsed.PublicKeyAlgorithm, PublicKey: parsed.PublicKey,
		KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true,
	}, nil
}

// issue signs the template and returns the certificate as PEM.
func (c *Signer) issue(ca *x509.Certificate, key crypto.Signer, template *x509.Certificate, seconds *int32) ([]byte, error) {
	now, end := time.Now(), ca.NotAfter
	if !now.Before(end) {
		return nil, fmt.Errorf("the authority expired at %s", end.UTC().Format(time.RFC3339))
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	duration := c.config.Duration
	if seconds != nil {
		duration = min(duration, max(minDuration, time.Duration(*seconds)*time.Second))
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-backdate), now.Add(duration)
	if duration >= shortDuration {
		template.NotAfter = template.NotAfter.Add(-backdate)
	}
	if template.NotAfter.After(end) {
		template.NotAfter = end
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, template.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

var plainUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// keyUsages returns usages in the terms of package x509, extended ones in order.
func keyUsages(usages []certificatesv1.KeyUsage) (plain x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	var unknown []certificatesv1.KeyUsage
	for _, usage := range usages {
		if flag, ok := plainUsages[usage]; ok {
			plain |= flag
		} else if purpose, ok := extendedUsages[usage]; ok {
			extended = append(extended, purpose)
		} else {
			unknown = append(unknown, usage)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(extended)
	return plain, slices.Compact(extended), nil
}
