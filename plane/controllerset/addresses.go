package controllerset

import (
	"context"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/serviceaddress"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ServiceAddressRepair is the name of the controller that repairs the IPAddresses of services. In
	// Kubernetes it is a part of kube-apiserver.
	ServiceAddressRepair = "service-address-repair-controller"
	// AddressRepairAccount is its service account in kube-system. No policy of Kubernetes grants rights
	// to it: it needs the verb get on services, and create and delete on ipaddresses.
	AddressRepairAccount = "service-address-repair"
)

func (e *Env) serviceRanges() (controllers.Runner, error) {
	addresses := typed.IPAddresses(e.Client)
	ranges := typed.ServiceCIDRs(e.Client)
	return serviceaddress.NewRanges(serviceaddress.RangesConfig{
		ServiceCIDRs: e.Caches.ServiceCIDRs,
		IPAddresses:  e.Caches.IPAddresses,
		ListAddresses: func(ctx context.Context) ([]*networkingv1.IPAddress, error) {
			all, _, err := addresses.List(ctx, "", metav1.ListOptions{})
			return all, err
		},
		Writer:       ranges,
		StatusWriter: ranges,
		Workers:      e.Workers,
		Metrics:      e.Metrics,
		Log:          e.Log,
	})
}

func (e *Env) addressRepair() (controllers.Runner, error) {
	return serviceaddress.NewRepair(serviceaddress.RepairConfig{
		Services:          e.Caches.Services,
		ServicesByAddress: e.Caches.ServicesByAddress,
		IPAddresses:       e.Caches.IPAddresses,
		ServiceCIDRs:      e.Caches.ServiceCIDRs,
		ServiceReader:     typed.Services(e.Client),
		Writer:            typed.IPAddresses(e.Client),
		Events:            e.Events,
		Workers:           e.Workers,
		Metrics:           e.Metrics,
		Log:               e.Log,
	})
}
