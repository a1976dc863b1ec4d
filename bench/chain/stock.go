package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	unionauthn "k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	unionauthz "k8s.io/apiserver/pkg/authorization/union"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// stockSide is kube-apiserver's three chains.
type stockSide struct {
	request   *http.Request
	who       authenticator.Request
	may       authorizer.Authorizer
	should    admission.Interface
	prototype *core.Pod

	user user.Info
}

// newStock starts kube-apiserver's side with the plugins of those names, in its
// order.
func newStock(ctx context.Context, w *world, plugins []string) (*stockSide, error) {
	s := &stockSide{prototype: &core.Pod{}}
	var err error
	if s.request, err = w.request(); err != nil {
		return nil, err
	}
	if err := legacyscheme.Scheme.Convert(newPod(), s.prototype, nil); err != nil {
		return nil, err
	}
	verify := requestx509.DefaultVerifyOptions()
	verify.Roots, verify.KeyUsages = w.authorities, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	s.who = unionauthn.NewFailOnError(
		group.NewAuthenticatedGroupAdder(unionauthn.New(requestx509.New(verify, requestx509.CommonNameUserConversion))),
		anonymous.NewAuthenticator(nil))

	client := fake.NewClientset(w.objects()...)
	shared := informers.NewSharedInformerFactory(client, 0)
	rbacs := shared.Rbac().V1()
	s.may = unionauthz.New(
		authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		rbac.New(
			&rbac.RoleGetter{Lister: rbacs.Roles().Lister()}, &rbac.RoleBindingLister{Lister: rbacs.RoleBindings().Lister()},
			&rbac.ClusterRoleGetter{Lister: rbacs.ClusterRoles().Lister()}, &rbac.ClusterRoleBindingLister{Lister: rbacs.ClusterRoleBindings().Lister()}))

	quotas, err := quotainstall.NewQuotaConfigurationForAdmission(shared, nil)
	if err != nil {
		return nil, err
	}
	registered := admission.NewPlugins()
	options.RegisterAllAdmissionPlugins(registered)
	registerGeneric(registered)
	s.should, err = registered.NewFromPlugins(inStockOrder(plugins), noConfiguration{}, admission.PluginInitializers{
		initializer.New(client, nil, shared, s.may, utilfeature.DefaultFeatureGate,
			compatibility.NewEffectiveVersionFromString("1.36", "1.36", "1.36"), ctx.Done(), nil),
		controlplaneadmission.NewPluginInitializer(quotas, nil),
	}, admission.Decorators{admission.DecoratorFunc(admissionmetrics.WithControllerMetrics)})
	if err != nil {
		return nil, err
	}
	s.should = admissionmetrics.WithStepMetrics(s.should)
	shared.Start(ctx.Done())
	for kind, synced := range shared.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("no copy of %v", kind)
		}
	}
	answer, _, err := s.who.AuthenticateRequest(s.request)
	if err != nil {
		return nil, err
	}
	s.user = answer.User
	return s, nil
}

func inStockOrder(plugins []string) []string {
	return slices.DeleteFunc(slices.Clone(options.AllOrderedPlugins), func(name string) bool { return !slices.Contains(plugins, name) })
}

func (w *world) objects() []runtime.Object {
	var all []runtime.Object
	for _, list := range [][]runtime.Object{
		erase(w.namespaces), erase(w.accounts), erase(w.classes), erase(w.limits),
		erase(w.roles), erase(w.roleBindings), erase(w.clusterRoles), erase(w.clusterRoleBindings),
	} {
		all = append(all, list...)
	}
	return all
}

func erase[T runtime.Object](objects []T) []runtime.Object {
	var erased []runtime.Object
	for _, o := range objects {
		erased = append(erased, o)
	}
	return erased
}

func (s *stockSide) pods(n int) []any {
	pods := make([]any, n)
	for i := range pods {
		pods[i] = s.prototype.DeepCopy()
	}
	return pods
}

func (s *stockSide) authenticate() error {
	_, known, err := s.who.AuthenticateRequest(s.request)
	if err == nil && !known {
		err = errors.New("nobody")
	}
	return err
}

func (s *stockSide) authorize() error { return s.mayCreate(s.user) }

func (s *stockSide) mayCreate(u user.Info) error {
	decision, reason, err := s.may.Authorize(s.request.Context(), authorizer.AttributesRecord{
		User: u, Verb: "create", APIVersion: "v1", Resource: "pods", Namespace: namespace, ResourceRequest: true, Path: s.request.URL.Path,
	})
	if err == nil && decision != authorizer.DecisionAllow {
		err = fmt.Errorf("%v: %s", decision, reason)
	}
	return err
}

func (s *stockSide) admit(pod any) error { return s.admitFrom(s.user, pod) }

func (s *stockSide) admitFrom(u user.Info, pod any) error {
	a := admission.NewAttributesRecord(pod.(*core.Pod), nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, namespace, "",
		schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", admission.Create, &metav1.CreateOptions{}, false, u)
	if err := s.should.(admission.MutationInterface).Admit(s.request.Context(), a, nil); err != nil {
		return err
	}
	return s.should.(admission.ValidationInterface).Validate(s.request.Context(), a, nil)
}

func (s *stockSide) create(pod any) error {
	answer, _, err := s.who.AuthenticateRequest(s.request)
	if err != nil {
		return err
	}
	if err := s.mayCreate(answer.User); err != nil {
		return err
	}
	return s.admitFrom(answer.User, pod)
}

func (s *stockSide) stored(pod any) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	return out, legacyscheme.Scheme.Convert(pod.(*core.Pod), out, nil)
}
