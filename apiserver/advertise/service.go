package advertise

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServicePort is the port of the Service, whatever that of the servers.
const ServicePort = 443

// ServiceIP is the address of the Service: the first of the range of cluster IPs.
func ServiceIP(primary netip.Prefix) netip.Addr { return primary.Masked().Addr().Next() }

// syncService makes the Service where there is none.
func (a *Advertiser) syncService(ctx context.Context) error {
	_, err := a.config.Services.Get(ctx, metav1.NamespaceDefault, name)
	if !apierrors.IsNotFound(err) {
		return err
	}
	target := int32(ServicePort)
	if a.config.Address.IsValid() {
		target = int32(a.config.Address.Port())
	}
	single := corev1.IPFamilyPolicySingleStack
	_, err = a.config.Services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			ClusterIP:       ServiceIP(a.config.Ranges[0]).String(),
			IPFamilyPolicy:  &single,
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports:           []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(target)}},
		},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// rangeFinalizer keeps a ServiceCIDR while addresses of it are in use.
const rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"

// syncRange makes the ServiceCIDR where there is none, and says that it is ready,
// or why it cannot go. Ranges other than configured stay as they are, but for a
// second family that is new.
func (a *Advertiser) syncRange(ctx context.Context) error {
	var ranges []string
	for _, r := range a.config.Ranges {
		ranges = append(ranges, r.Masked().String())
	}
	have, err := a.config.ServiceCIDRs.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		have, err = a.config.ServiceCIDRs.Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{rangeFinalizer}},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: ranges},
		})
		if apierrors.IsAlreadyExists(err) {
			have, err = a.config.ServiceCIDRs.Get(ctx, "", name)
		}
	}
	if err != nil {
		return err
	}
	if have.DeletionTimestamp != nil {
		return a.rangeStatus(ctx, have, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if len(ranges) == 2 && len(have.Spec.CIDRs) == 1 && have.Spec.CIDRs[0] == ranges[0] || !slices.Contains(have.Finalizers, rangeFinalizer) {
		update := have.DeepCopy()
		if len(update.Spec.CIDRs) < len(ranges) && update.Spec.CIDRs[0] == ranges[0] {
			update.Spec.CIDRs = ranges
		}
		if !slices.Contains(update.Finalizers, rangeFinalizer) {
			update.Finalizers = append(update.Finalizers, rangeFinalizer)
		}
		if have, err = a.config.ServiceCIDRs.Update(ctx, update); err != nil {
			return err
		}
	}
	if !slices.Equal(have.Spec.CIDRs, ranges) {
		if !a.mismatch {
			a.config.Log.Info("the ServiceCIDR kubernetes is not the configured range", "have", have.Spec.CIDRs, "configured", ranges)
		}
		a.mismatch = true
		return nil
	}
	if c := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady); c != nil && c.Status != metav1.ConditionUnknown {
		return nil // another component may have a reason
	}
	return a.rangeStatus(ctx, have, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready"})
}

func (a *Advertiser) rangeStatus(ctx context.Context, have *networkingv1.ServiceCIDR, c metav1.Condition) error {
	c.Type = networkingv1.ServiceCIDRConditionReady
	update := have.DeepCopy()
	if !meta.SetStatusCondition(&update.Status.Conditions, c) {
		return nil
	}
	_, err := a.config.ServiceCIDRs.UpdateStatus(ctx, update)
	return err
}
