// Package tokenrequest serves the token subresource of service accounts, by
// which kubelets and kubectl create token get tokens that are bound and end
// (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/).
//
//	tokens, err := tokenrequest.New(tokenrequest.Config{
//		Signer: signer, Audiences: []string{issuer}, Pods: pods.Get, Secrets: secrets.Get, Nodes: nodes.Get,
//	})
//	accounts.Subresources = append(accounts.Subresources, tokens)
//
// A request without audiences is for the API server's own, one without a time for
// an hour. Less than ten minutes and more than 2^32 seconds are refused; more than
// MaxExpiration is shortened, and the answer says so in spec.expirationSeconds and
// in a warning. A request may name the account and its UID, which then must be
// those of the account.
//
// A token may be bound to a pod, a secret or a node, which must exist, with the UID
// that the request names if it names one. A pod must run under the account.
//
// A kubelet, which is a member of system:nodes, gets tokens for the pods on its own
// node alone, whatever authorization allows it: this is the part of Kubernetes'
// NodeRestriction admission that concerns tokens.
//
// Nothing is stored, and no token is logged or put into an error. The ID of a token
// that was given out is in the audit of the request, under
// [serviceaccount.IssuedCredentialIDKey]. Wherever the token is used, its user has the
// same ID as an extra.
package tokenrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/internal/invalid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Seconds, all of them Kubernetes' figures.
const (
	defaultExpiration = 60 * 60
	minExpiration     = 10 * 60
	maxExpiration     = 1 << 32
	// volumeExpiration is the expiration that only the token volumes of pods ask for.
	volumeExpiration = 60*60 + 7
)

// Config says who signs and where tokens can be bound to. Signer, Audiences, Pods,
// Secrets and Nodes must be set.
type Config struct {
	// Signer makes the tokens.
	Signer *serviceaccount.Signer
	// Audiences are the audiences of a token whose request names none.
	Audiences []string
	// MaxExpiration is the longest lifetime of a token. Zero means no limit but 2^32 s.
	MaxExpiration time.Duration
	// Extend is the lifetime of tokens in the volume that admission adds to every pod,
	// for programs that read their token only once. The warnafter claim of such a token
	// holds the end of the requested lifetime. Zero extends nothing.
	Extend time.Duration
	// Pods, Secrets and Nodes read one object from where it is stored, with the
	// errors of k8s.io/apimachinery/pkg/api/errors. The namespace of a node is empty.
	Pods    func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secrets func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Nodes   func(ctx context.Context, namespace, name string) (*corev1.Node, error)
}

// New returns the subresource, to be served under service accounts.
func New(c Config) (apiserver.Question, error) {
	switch {
	case c.Signer == nil || len(c.Audiences) == 0:
		return apiserver.Question{}, errors.New("tokenrequest: Signer and Audiences must be set")
	case c.Pods == nil || c.Secrets == nil || c.Nodes == nil:
		return apiserver.Question{}, errors.New("tokenrequest: Pods, Secrets and Nodes must be set")
	case c.MaxExpiration != 0 && c.MaxExpiration < minExpiration*time.Second:
		return apiserver.Question{}, errors.New("tokenrequest: MaxExpiration is below ten minutes")
	}
	return apiserver.Question{
		Name:    "token",
		Group:   authenticationv1.GroupName,
		Version: "v1",
		Kind:    "TokenRequest",
		New:     func() runtime.Object { return &authenticationv1.TokenRequest{} },
		Answer: func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error) {
			return c.issue(ctx, parent.(*corev1.ServiceAccount), body.(*authenticationv1.TokenRequest))
		},
	}, nil
}

// issue answers one request.
func (c *Config) issue(ctx context.Context, account *corev1.ServiceAccount, asked *authenticationv1.TokenRequest) (runtime.Object, error) {
	now := time.Now()
	request := asked.DeepCopy()
	request.CreationTimestamp = metav1.NewTime(now).Rfc3339Copy()
	request.Status = authenticationv1.TokenRequestStatus{}
	if err := about(request, account); err != nil {
		return nil, err
	}
	spec := &request.Spec
	if len(spec.Audiences) == 0 {
		spec.Audiences = c.Audiences
	}
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = new(int64(defaultExpiration))
	}
	if errs := validate(*spec.ExpirationSeconds); len(errs) > 0 {
		return nil, invalidRequest("", errs...)
	}
	grant := serviceaccount.Grant{
		Namespace: account.Namespace,
		Account:   serviceaccount.Ref{Name: account.Name, UID: string(account.UID)},
		Audiences: spec.Audiences,
		ID:        string(uuid.NewUUID()),
	}
	if err := c.bind(ctx, account, spec.BoundObjectRef, &grant); err != nil {
		return nil, err
	}
	if most := int64(c.MaxExpiration / time.Second); most > 0 && *spec.ExpirationSeconds > most {
		apiserver.Warn(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *spec.ExpirationSeconds, most))
		spec.ExpirationSeconds = new(most)
	}
	grant.Life = time.Duration(*spec.ExpirationSeconds) * time.Second
	if c.Extend > 0 && grant.Pod != nil && *spec.ExpirationSeconds == volumeExpiration && c.own(spec.Audiences) {
		grant.Life, grant.WarnAfter = max(c.Extend, grant.Life), grant.Life
	}
	token, err := c.Signer.Sign(grant)
	if err != nil {
		return nil, fmt.Errorf("failed to generate token: %w", err)
	}
	apiserver.Annotate(ctx, serviceaccount.IssuedCredentialIDKey, serviceaccount.CredentialID(grant.ID))
	// Not later than the token says, which was made after now.
	expires := now.Add(time.Duration(*spec.ExpirationSeconds) * time.Second)
	request.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires).Rfc3339Copy()}
	return request, nil
}

// about checks that the request is about the account in the URL, and completes
// what it says of it.
func about(request *authenticationv1.TokenRequest, account *corev1.ServiceAccount) error {
	if request.Name != "" && request.Name != account.Name {
		return invalidRequest(account.Name, field.Invalid(field.NewPath("metadata", "name"), request.Name, "must match the service account name if specified"))
	}
	if request.UID != "" && request.UID != account.UID {
		return apierrors.NewConflict(schema.GroupResource{Group: authenticationv1.GroupName, Resource: "TokenRequest"}, account.Name, fmt.Errorf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", request.UID, account.UID))
	}
	request.Name, request.Namespace, request.UID = account.Name, account.Namespace, account.UID
	return nil
}

// own reports whether all audiences are those of the API server.
func (c *Config) own(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(c.Audiences, a) })
}

func invalidRequest(name string, errs ...*field.Error) error {
	return invalid.Object(schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}, name, errs)
}

func validate(expiration int64) field.ErrorList {
	path := field.NewPath("spec", "expirationSeconds")
	switch {
	case expiration < minExpiration:
		return field.ErrorList{field.Invalid(path, expiration, "may not specify a duration less than 10 minutes")}
	case expiration > maxExpiration:
		return field.ErrorList{field.Invalid(path, expiration, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// bind puts into the grant what the request wants the token to be bound to.
func (c *Config) bind(ctx context.Context, account *corev1.ServiceAccount, ref *authenticationv1.BoundObjectReference, grant *serviceaccount.Grant) error {
	if err := restrict(ctx, account.Name, ref); err != nil {
		return err
	}
	if ref == nil {
		return nil
	}
	var err error
	var bound *serviceaccount.Ref
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch {
	case ref.Name == "" && kind.Group == "" && slices.Contains([]string{"Pod", "Secret", "Node"}, kind.Kind):
		err = apierrors.NewBadRequest("Name parameter required.")
	case kind.Group == "" && kind.Kind == "Pod":
		err = c.bindPod(ctx, account, ref.Name, grant)
		bound = grant.Pod
	case kind.Group == "" && kind.Kind == "Secret":
		var secret *corev1.Secret
		if secret, err = c.Secrets(ctx, account.Namespace, ref.Name); err == nil {
			grant.Secret = &serviceaccount.Ref{Name: secret.Name, UID: string(secret.UID)}
			bound = grant.Secret
		}
	case kind.Group == "" && kind.Kind == "Node":
		var node *corev1.Node
		if node, err = c.Nodes(ctx, "", ref.Name); err == nil {
			grant.Node = &serviceaccount.Ref{Name: node.Name, UID: string(node.UID)}
			bound = grant.Node
		}
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind))
	}
	if err != nil {
		return err
	}
	if ref.UID != "" && bound.UID != string(ref.UID) {
		return apierrors.NewConflict(schema.GroupResource{Resource: kind.Kind}, ref.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// bindPod binds to a pod of the account, and tells the node that it is on.
func (c *Config) bindPod(ctx context.Context, account *corev1.ServiceAccount, name string, grant *serviceaccount.Grant) error {
	pod, err := c.Pods(ctx, account.Namespace, name)
	if err != nil {
		return err
	}
	if cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount) != account.Name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
	}
	if err := onNode(ctx, account.Name, pod); err != nil {
		return err
	}
	grant.Pod = &serviceaccount.Ref{Name: pod.Name, UID: string(pod.UID)}
	if pod.Spec.NodeName == "" {
		return nil
	}
	node, err := c.Nodes(ctx, "", pod.Spec.NodeName)
	switch {
	case err == nil:
		grant.Node = &serviceaccount.Ref{Name: node.Name, UID: string(node.UID)}
	case apierrors.IsNotFound(err):
		grant.Node = &serviceaccount.Ref{Name: pod.Spec.NodeName}
	default:
		return err
	}
	return nil
}
