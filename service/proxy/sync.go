package proxy

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
)

// sync writes the services that changed.
func (p *Proxy) sync(ctx context.Context) error {
	began := time.Now()
	first := !p.isReady()
	change := &ruleset.Change{}
	p.updateSite(change)
	updates, triggers := p.tracker.take()
	var ended flows
	for _, u := range updates {
		p.put(u, change, &ended)
	}
	if err := p.keeper.Commit(ctx, change); err != nil {
		return err
	}
	if err := p.forget(ctx, ended); err != nil && ctx.Err() == nil {
		// Rules are right; only old UDP flows still go to an endpoint that has ended.
		p.Log.Error(err, "could not remove conntrack entries")
	}
	p.checks.sync(updates, p.site.Node)
	p.health.updated()
	p.Meters.synced(time.Since(began), first, triggers, p.noLocal)
	p.once.Do(func() { close(p.ready) })
	return nil
}

// updateSite writes the shared chains if the node has changed. Then all services are dirty.
func (p *Proxy) updateSite(change *ruleset.Change) {
	p.mu.Lock()
	node := p.node
	p.mu.Unlock()
	site := p.site
	if node != nil {
		site.Zone, site.NodeAddresses = zoneOf(node), addressesOf(node)
	}
	if p.isReady() && site.Zone == p.site.Zone && slices.Equal(site.NodeAddresses, p.site.NodeAddresses) {
		return
	}
	p.site = site
	p.keeper.Model.Put(baseOwner, "", site.Base(), change)
}

// baseOwner owns what services share. No service has this key.
const baseOwner = ""

// put computes what one service needs.
func (p *Proxy) put(u update, change *ruleset.Change, ended *flows) {
	before := p.served[u.key]
	now := served{}
	var fragment ruleset.Fragment
	if u.service != nil {
		ports, endpoints := Ports(u.service), endpointsOf(u.slices, p.Node)
		fragment, now.noLocal = p.site.fragment(ports, endpoints)
		now.flows = flowTargets(ports, endpoints)
	}
	for _, c := range p.keeper.Model.Put(u.key, rank(u.service), fragment, change) {
		set := p.keeper.Model.Table().Sets[c.Place.Set]
		if set.Kind == ruleset.Endpoints {
			continue // which the address that leads to them says once
		}
		where := set.Format(c.Place.Key)
		p.Log.Info("two services want the same address, the older one has it", "service", u.key, "winner", c.Winner, "address", where)
		if p.Events != nil && u.service != nil {
			p.Events.Event(u.service, corev1.EventTypeWarning, "AddressInUse", "service "+c.Winner+" already has "+where)
		}
	}
	ended.add(before.flows, now.flows, !p.isReady())
	p.noLocal.internal += now.noLocal.internal - before.noLocal.internal
	p.noLocal.external += now.noLocal.external - before.noLocal.external
	if u.service == nil {
		delete(p.served, u.key)
	} else {
		p.served[u.key] = now
	}
}

// addressesOf returns the addresses of a node by which it is reached: one of each family, internal ones
// first.
func addressesOf(n *corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type != kind {
				continue
			}
			for _, addr := range parse([]string{a.Address}) {
				known := func(other netip.Addr) bool { return ruleset.FamilyOf(other) == ruleset.FamilyOf(addr) }
				if !slices.ContainsFunc(found, known) {
					found = append(found, addr)
				}
			}
		}
	}
	return found
}

func sameAddresses(a, b *corev1.Node) bool { return slices.Equal(addressesOf(a), addressesOf(b)) }
