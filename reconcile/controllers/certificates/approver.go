package certificates

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Reviewer answers whether a user may do something. The resource subjectaccessreviews of the API is
// one.
type Reviewer interface {
	Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (allowed bool, err error)
}

// ApproverConfig configures an Approver. All fields before Workers are required.
type ApproverConfig struct {
	Requests localcache.Cache[*certificatesv1.CertificateSigningRequest]
	Writer   ApprovalUpdater
	Reviewer Reviewer
	// Workers is the number of requests processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Approver approves requests of the signer kubernetes.io/kube-apiserver-client-kubelet. The user of the
// request needs the verb create on certificatesigningrequests/selfnodeclient, for a certificate of its
// own name, or on certificatesigningrequests/nodeclient, for one of any node. A request whose user has
// neither stays pending. The Approver looks at it again with a growing delay, because the right may be
// granted later.
type Approver struct {
	*reconcile.Controller[string]
	config ApproverConfig
}

// NewApprover returns a controller, or an error if config lacks a required field. It starts nothing.
func NewApprover(config ApproverConfig) (*Approver, error) {
	err := loop.Required("certificates: ApproverConfig", "Requests", config.Requests, "Writer", config.Writer, "Reviewer", config.Reviewer)
	if err != nil {
		return nil, err
	}
	c := &Approver{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "csrapproving", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Requests, reconcile.Itself(localcache.KeyOf[*request]))
	return c, nil
}

// permissions are the rights that let a user have a certificate of a node, in the order in which the
// Approver asks for them.
var permissions = []struct {
	subresource, message string
	applies              func(*request, *x509.CertificateRequest) bool
}{
	{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.",
		func(r *request, parsed *x509.CertificateRequest) bool {
			return r.Spec.Username == parsed.Subject.CommonName
		}},
	{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.",
		func(*request, *x509.CertificateRequest) bool { return true }},
}

func (c *Approver) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	r, ok := c.config.Requests.Get(key)
	if !ok || !isPending(r) || r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return reconcile.Result{}, nil
	}
	parsed, err := parse(r.Spec.Request)
	if err != nil || checkNodeClient(parsed, r.Spec.Usages) != nil {
		return reconcile.Result{}, nil // the request is not one that this controller decides about
	}
	for _, p := range permissions {
		if !p.applies(r, parsed) {
			continue
		}
		allowed, err := c.config.Reviewer.Review(ctx, review(r, p.subresource))
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("review the user of request %s: %w", key, err)
		}
		if allowed {
			return reconcile.Result{}, approve(ctx, c.config.Writer, r, p.message)
		}
	}
	return reconcile.Result{Requeue: true}, nil
}

// approve writes the condition Approved.
func approve(ctx context.Context, writer ApprovalUpdater, r *request, message string) error {
	if _, err := writer.UpdateApproval(ctx, approved(r, message)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("approve request %s: %w", r.Name, err)
	}
	return nil
}

// review returns the question whether the user of a request may create it as a subresource.
func review(r *request, subresource string) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Verb: "create", Subresource: subresource,
		},
	}
	for key, values := range r.Spec.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	return spec
}
