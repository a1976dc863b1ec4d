package convergence

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceRanges deletes a ServiceCIDR, named after the room, while a service has an address of it.
func serviceRanges() []Step {
	return []Step{
		{Name: "create", Do: func(ctx context.Context, r *Room) error {
			_, err := r.Client.NetworkingV1().ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"172.30.9.0/28"}},
			}, metav1.CreateOptions{})
			return err
		}, Until: rangeReady(metav1.ConditionTrue)},
		{Name: "an address in use", Do: func(ctx context.Context, r *Room) error {
			s := service("web", nil)
			s.Spec.ClusterIP = "172.30.9.5"
			_, err := r.Client.CoreV1().Services(r.Namespace).Create(ctx, s, metav1.CreateOptions{})
			return err
		}},
		{Name: "delete", Do: func(ctx context.Context, r *Room) error {
			return r.Client.NetworkingV1().ServiceCIDRs().Delete(ctx, r.Namespace, metav1.DeleteOptions{})
		}, Until: rangeReady(metav1.ConditionFalse)},
		{Name: "no address in use", Do: func(ctx context.Context, r *Room) error {
			return r.Client.CoreV1().Services(r.Namespace).Delete(ctx, "web", metav1.DeleteOptions{})
		}, Until: func(ctx context.Context, r *Room) (bool, error) {
			_, err := r.Client.NetworkingV1().ServiceCIDRs().Get(ctx, r.Namespace, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		}},
	}
}

// rangeReady reports whether the condition Ready of the room's ServiceCIDR has a status.
func rangeReady(want metav1.ConditionStatus) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		c, err := r.Client.NetworkingV1().ServiceCIDRs().Get(ctx, r.Namespace, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady, want), nil
	}
}
