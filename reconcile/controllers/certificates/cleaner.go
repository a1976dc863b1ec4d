package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long requests are kept, as in kube-controller-manager.
const (
	decidedLife = time.Hour      // issued, denied or failed
	pendingLife = 24 * time.Hour // not decided, or approved and not issued
)

// CleanerConfig configures a Cleaner. All fields before Workers are required.
type CleanerConfig struct {
	Requests localcache.Cache[*certificatesv1.CertificateSigningRequest]
	Writer   controllers.Deleter
	// Workers is the number of requests processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Cleaner deletes requests: an hour after a certificate was issued or when it expires, an hour after the
// request was denied or failed, and a day after it was created or approved without a further step.
type Cleaner struct {
	*reconcile.Controller[string]
	config CleanerConfig
}

// NewCleaner returns a controller, or an error if config lacks a required field. It starts nothing.
func NewCleaner(config CleanerConfig) (*Cleaner, error) {
	if err := loop.Required("certificates: CleanerConfig", "Requests", config.Requests, "Writer", config.Writer); err != nil {
		return nil, err
	}
	c := &Cleaner{config: config}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: "csrcleaner", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Requests, reconcile.Itself(localcache.KeyOf[*request]))
	return c, nil
}

func (c *Cleaner) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	r, ok := c.config.Requests.Get(key)
	if !ok || r.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	end := endOf(r)
	if end.IsZero() {
		return reconcile.Result{}, nil
	}
	if left := time.Until(end); left > 0 {
		return reconcile.Result{After: left}, nil
	}
	// The request may be another of the name by now, or may have been decided.
	err := c.config.Writer.Delete(ctx, "", r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("delete request %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}

// endOf returns when a request is deleted, zero for never.
func endOf(r *request) time.Time {
	var end time.Time
	sooner := func(since time.Time, life time.Duration) {
		if at := since.Add(life); !since.IsZero() && (end.IsZero() || at.Before(end)) {
			end = at
		}
	}
	if len(r.Status.Conditions) == 0 {
		sooner(r.CreationTimestamp.Time, pendingLife)
	}
	for _, condition := range r.Status.Conditions {
		updated := condition.LastUpdateTime.Time
		switch {
		case condition.Type == certificatesv1.CertificateDenied, condition.Type == certificatesv1.CertificateFailed:
			sooner(updated, decidedLife)
		case condition.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0:
			sooner(updated, pendingLife)
		case condition.Type == certificatesv1.CertificateApproved:
			sooner(updated, decidedLife)
			sooner(expiry(r.Status.Certificate), 0)
		}
	}
	return end
}

// expiry returns when the first certificate in data expires, zero if there is none.
func expiry(data []byte) time.Time {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}
	}
	certificates, err := x509.ParseCertificates(block.Bytes)
	if err != nil || len(certificates) == 0 {
		return time.Time{}
	}
	return certificates[0].NotAfter
}
