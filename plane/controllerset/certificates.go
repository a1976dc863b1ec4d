package controllerset

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/bootstrap"
	"github.com/planekit/planekit/reconcile/controllers/certificates"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// KubeletServingApprover is the name of the controller that approves the serving certificates of
	// nodes, which Kubernetes does not have.
	KubeletServingApprover = "kubelet-serving-approving-controller"
	// ServingApproverAccount is its service account in kube-system. No policy of Kubernetes grants
	// rights to it: it needs the verb update on certificatesigningrequests/approval and the verb approve
	// on the signer kubernetes.io/kubelet-serving.
	ServingApproverAccount = "kubelet-serving-approver"
)

// NodeNames says which names and addresses the certificates of kubelets cannot have.
type NodeNames = certificates.NodeNames

func (e *Env) approver() (controllers.Runner, error) {
	return certificates.NewApprover(certificates.ApproverConfig{
		Requests: e.Caches.SigningRequests,
		Writer:   requestWriter{typed.CertificateSigningRequests(e.Client)},
		Reviewer: reviewer{e.Client},
		Workers:  e.Workers,
		Metrics:  e.Metrics,
		Log:      e.Log,
	})
}

func (e *Env) servingApprover() (controllers.Runner, error) {
	return certificates.NewServingApprover(certificates.ServingApproverConfig{
		Requests: e.Caches.SigningRequests,
		Nodes:    e.Caches.Nodes,
		Names:    e.config.NodeNames,
		Writer:   requestWriter{typed.CertificateSigningRequests(e.Client)},
		Workers:  e.Workers,
		Metrics:  e.Metrics,
		Log:      e.Log,
	})
}

func (e *Env) signer() (controllers.Runner, error) {
	return certificates.NewSigner(certificates.SignerConfig{
		Requests:   e.Caches.SigningRequests,
		Writer:     typed.CertificateSigningRequests(e.Client),
		CA:         e.config.Authority,
		Key:        e.config.AuthorityKey,
		ServingCA:  e.config.KubeletAuthority,
		ServingKey: e.config.KubeletAuthorityKey,
		Names:      e.config.NodeNames,
		Duration:   e.config.Tuning.CertificateDuration,
		Workers:    e.Workers,
		Metrics:    e.Metrics,
		Log:        e.Log,
	})
}

func (e *Env) requestCleaner() (controllers.Runner, error) {
	return certificates.NewCleaner(certificates.CleanerConfig{
		Requests: e.Caches.SigningRequests,
		Writer:   typed.CertificateSigningRequests(e.Client),
		Workers:  e.Workers,
		Metrics:  e.Metrics,
		Log:      e.Log,
	})
}

// bootstrapSigner signs the ConfigMap cluster-info, if a program has created it.
func (e *Env) bootstrapSigner() (controllers.Runner, error) {
	return bootstrap.NewSigner(bootstrap.SignerConfig{
		ConfigMaps:         e.Caches.ConfigMaps,
		Secrets:            e.Caches.Secrets,
		SecretsByNamespace: e.Caches.SecretsByNamespace,
		Writer:             typed.ConfigMaps(e.Client),
		Metrics:            e.Metrics,
		Log:                e.Log,
	})
}

func (e *Env) tokenCleaner() (controllers.Runner, error) {
	return bootstrap.NewTokenCleaner(bootstrap.TokenCleanerConfig{
		Secrets: e.Caches.Secrets,
		Writer:  typed.Secrets(e.Client),
		Workers: e.Workers,
		Metrics: e.Metrics,
		Log:     e.Log,
	})
}

// requestWriter writes the decisions about signing requests.
type requestWriter struct {
	requests client.Resource[*certificatesv1.CertificateSigningRequest]
}

func (w requestWriter) UpdateApproval(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	return w.requests.UpdateSubresource(ctx, r, "approval")
}

// reviewer asks the API server what a user may do.
type reviewer struct{ api *client.Client }

func (r reviewer) Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	body, err := json.Marshal(&authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}, Spec: spec,
	})
	if err != nil {
		return false, err
	}
	answer, err := r.api.Do(ctx, client.Request{
		Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", Body: body,
	})
	if err != nil {
		return false, err
	}
	var review authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(answer.Body, &review); err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
