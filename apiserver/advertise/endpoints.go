//lint:file-ignore SA1019 clients still read Endpoints

package advertise

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listed returns the addresses of leases that go into the endpoints, in order: those
// of the family and the port of the first. Servers that read the same leases list
// the same addresses. A lease without a port has own.
func listed(leases []netip.AddrPort, own uint16) []netip.AddrPort {
	all := make([]netip.AddrPort, 0, len(leases))
	for _, lease := range leases {
		if lease.Port() == 0 {
			lease = netip.AddrPortFrom(lease.Addr(), own)
		}
		all = append(all, lease)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(a netip.AddrPort) bool {
		return a.Port() != all[0].Port() || a.Addr().Is4() != all[0].Addr().Is4()
	})
}

// syncEndpoints writes the addresses of all leases into the endpoints. A server
// that leaves may be the last.
func (a *Advertiser) syncEndpoints(ctx context.Context, leaving bool) error {
	leases, err := a.config.Leases.List(ctx)
	if err != nil {
		return err
	}
	if !leaving && !slices.Contains(leases, a.config.Address) {
		return fmt.Errorf("the lease of %s is not among those that are stored", a.config.Address)
	}
	servers := listed(leases, a.config.Address.Port())
	if !leaving && !slices.Contains(servers, a.config.Address) && !a.elsewhere {
		a.elsewhere = true
		a.config.Log.Info("the endpoints of the API servers have another port or family than this server, which is not among them",
			"address", a.config.Address.String(), "listed", servers[0].String())
	}
	if err := a.writeEndpoints(ctx, servers, leaving); err != nil {
		return fmt.Errorf("endpoints default/%s: %w", name, err)
	}
	if err := a.writeSlice(ctx, servers, leaving); err != nil {
		return fmt.Errorf("endpoint slice default/%s: %w", name, err)
	}
	return nil
}

func (a *Advertiser) writeEndpoints(ctx context.Context, servers []netip.AddrPort, leaving bool) error {
	var subsets []corev1.EndpointSubset
	if len(servers) > 0 {
		subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "https", Port: int32(servers[0].Port()), Protocol: corev1.ProtocolTCP}}}
		for _, s := range servers {
			subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: s.Addr().String()})
		}
		subsets = append(subsets, subset)
	}
	have, err := a.config.Endpoints.Get(ctx, metav1.NamespaceDefault, name)
	if apierrors.IsNotFound(err) {
		if leaving {
			return nil
		}
		_, err = a.config.Endpoints.Create(ctx, &corev1.Endpoints{
			// The slice is made here.
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
			Subsets:    subsets,
		})
		return settled(err)
	}
	if err != nil || have.Labels[discoveryv1.LabelSkipMirror] == "true" && equality.Semantic.DeepEqual(have.Subsets, subsets) {
		return err
	}
	update := have.DeepCopy()
	update.Labels = maps.Clone(have.Labels)
	if update.Labels == nil {
		update.Labels = map[string]string{}
	}
	update.Labels[discoveryv1.LabelSkipMirror], update.Subsets = "true", subsets
	_, err = a.config.Endpoints.Update(ctx, update)
	return err
}

func (a *Advertiser) writeSlice(ctx context.Context, servers []netip.AddrPort, leaving bool) error {
	want := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, s := range servers {
		want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{s.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	if len(servers) > 0 {
		if servers[0].Addr().Is6() {
			want.AddressType = discoveryv1.AddressTypeIPv6
		}
		want.Ports = []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(servers[0].Port())), Protocol: new(corev1.ProtocolTCP)}}
	}
	have, err := a.config.EndpointSlices.Get(ctx, metav1.NamespaceDefault, name)
	if err == nil && len(servers) > 0 && have.AddressType != want.AddressType {
		// The family of a slice cannot be changed.
		if err := a.config.EndpointSlices.Delete(ctx, have.Namespace, have.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID}}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = a.config.EndpointSlices.Create(ctx, want)
		return settled(err)
	}
	switch {
	case apierrors.IsNotFound(err) && leaving:
		return nil
	case apierrors.IsNotFound(err):
		_, err = a.config.EndpointSlices.Create(ctx, want)
		return settled(err)
	case err != nil:
		return err
	case equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(have.Ports, want.Ports) &&
		have.Labels[discoveryv1.LabelServiceName] == name:
		return nil
	}
	update := have.DeepCopy()
	update.Endpoints, update.Ports, update.Labels = want.Endpoints, want.Ports, want.Labels
	_, err = a.config.EndpointSlices.Update(ctx, update)
	return err
}

// settled takes it for no error that another server was first: it has written the
// same.
func settled(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
