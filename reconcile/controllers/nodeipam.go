package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// NodeIPAMConfig joins a NodeIPAM controller to its surroundings. Nodes and
// Writer must be set.
type NodeIPAMConfig struct {
	Nodes  localcache.Cache[*corev1.Node]
	Writer Patcher[*corev1.Node]
	// Cluster is what addresses of pods are taken from. Zero is 10.244.0.0/16.
	Cluster netip.Prefix
	// NodeBits is the prefix length of what each node gets. Zero is 24, or 64
	// when Cluster is IPv6.
	NodeBits int
	// Events may be nil.
	Events Events
	Log    logr.Logger
}

// NodeIPAM gives each node a range of pod addresses. The nodes themselves are
// its only memory: what none of them has is free. Only one may run, since the
// API does not refuse a range that is given twice.
type NodeIPAM struct {
	*loop
	config NodeIPAMConfig
	// given has ranges that a node may have got, and that the local copy does not
	// show yet. It belongs to reconcile, of which there is one call at a time.
	given map[types.UID]netip.Prefix
}

// maxNodeRanges bounds the ranges of a cluster, and with it the search for a
// free one.
const maxNodeRanges = 1 << 16

// NewNodeIPAM checks config. It starts nothing.
func NewNodeIPAM(config NodeIPAMConfig) (*NodeIPAM, error) {
	if err := required("NodeIPAMConfig", "Nodes", config.Nodes, "Writer", config.Writer); err != nil {
		return nil, err
	}
	if config.Cluster == (netip.Prefix{}) {
		config.Cluster = netip.MustParsePrefix("10.244.0.0/16")
	}
	if config.NodeBits == 0 {
		config.NodeBits = 24
		if config.Cluster.Addr().Is6() {
			config.NodeBits = 64
		}
	}
	switch extra := config.NodeBits - config.Cluster.Bits(); {
	case !config.Cluster.IsValid():
		return nil, errors.New("controllers: NodeIPAMConfig: Cluster is not valid")
	case extra < 0 || config.NodeBits > config.Cluster.Addr().BitLen():
		return nil, fmt.Errorf("controllers: NodeIPAMConfig: no /%d fits in %s", config.NodeBits, config.Cluster)
	case 1<<min(extra, 30) > maxNodeRanges:
		return nil, fmt.Errorf("controllers: NodeIPAMConfig: more than %d ranges of /%d in %s", maxNodeRanges, config.NodeBits, config.Cluster)
	}
	config.Cluster = config.Cluster.Masked()
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &NodeIPAM{config: config, given: make(map[types.UID]netip.Prefix)}
	var err error
	// All nodes are one key: ranges are given out by one decision at a time.
	if c.loop, err = newLoop("nodeipam", 1, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Nodes, func(old, new *corev1.Node) {
		// A node that goes frees its range for one that had found none.
		if new == nil || new.Spec.PodCIDR == "" {
			c.Enqueue(allNodes)
		}
	})
	return c, nil
}

const allNodes = "all nodes"

func (c *NodeIPAM) reconcile(ctx context.Context, _ string) (reconcile.Result, error) {
	nodes := slices.SortedFunc(c.config.Nodes.All(), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	c.forget(nodes)
	plan, full := planRanges(c.config.Cluster, c.config.NodeBits, nodes, c.given)
	var failures []error
	for _, p := range plan {
		// Kept until the copy shows the node with a range or shows it gone,
		// whatever becomes of the patch: its answer may be lost.
		c.given[p.node.UID] = p.prefix
		if err := c.give(ctx, p.node, p.prefix); err != nil && !apierrors.IsNotFound(err) {
			if !isStale(err) {
				c.tell(p.node, "CIDRAssignmentFailed")
			}
			failures = append(failures, fmt.Errorf("give %s to node %s: %w", p.prefix, p.node.Name, err))
		}
	}
	for _, node := range full {
		c.tell(node, "CIDRNotAvailable")
	}
	return reconcile.Result{}, errors.Join(failures...)
}

func (c *NodeIPAM) tell(node *corev1.Node, status string) {
	c.config.Events.Event(node, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", node.Name, status))
}

// forget drops what the copy shows by now.
func (c *NodeIPAM) forget(nodes []*corev1.Node) {
	waiting := make(map[types.UID]bool)
	for _, node := range nodes {
		waiting[node.UID] = node.Spec.PodCIDR == ""
	}
	for uid := range c.given {
		if !waiting[uid] {
			delete(c.given, uid)
		}
	}
}

func (c *NodeIPAM) give(ctx context.Context, node *corev1.Node, prefix netip.Prefix) error {
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			PodCIDR  string   `json:"podCIDR"`
			PodCIDRs []string `json:"podCIDRs"`
		} `json:"spec"`
	}
	patch.Metadata.UID = node.UID
	patch.Spec.PodCIDR, patch.Spec.PodCIDRs = prefix.String(), []string{prefix.String()}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.config.Writer.Patch(ctx, "", node.Name, types.MergePatchType, data)
	return err
}

// nodeRange is a range for a node.
type nodeRange struct {
	node   *corev1.Node
	prefix netip.Prefix
}

// planRanges gives the lowest free ranges to the nodes without one that stay; a
// node in given gets the same again. full are the nodes for which nothing was left.
func planRanges(cluster netip.Prefix, bits int, nodes []*corev1.Node, given map[types.UID]netip.Prefix) (plan []nodeRange, full []*corev1.Node) {
	used := make([]bool, 1<<(bits-cluster.Bits()))
	for _, node := range nodes {
		for _, cidr := range append(slices.Clone(node.Spec.PodCIDRs), node.Spec.PodCIDR) {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				mark(used, cluster, bits, prefix)
			}
		}
		if prefix, ok := given[node.UID]; ok {
			mark(used, cluster, bits, prefix)
		}
	}
	next := 0
	for _, node := range nodes {
		if node.Spec.PodCIDR != "" || node.DeletionTimestamp != nil {
			continue
		}
		if prefix, ok := given[node.UID]; ok {
			plan = append(plan, nodeRange{node, prefix})
			continue
		}
		for next < len(used) && used[next] {
			next++
		}
		if next == len(used) {
			full = append(full, node)
			continue
		}
		used[next] = true
		plan = append(plan, nodeRange{node, subnet(cluster, bits, next)})
	}
	return plan, full
}

// mark marks every range that prefix overlaps, whatever its length.
func mark(used []bool, cluster netip.Prefix, bits int, prefix netip.Prefix) {
	if !prefix.Overlaps(cluster) {
		return
	}
	first, count := 0, len(used)
	if prefix.Bits() > cluster.Bits() {
		first = number(cluster, bits, prefix.Addr())
		count = 1 << max(0, bits-prefix.Bits())
	}
	for i := first; i < min(first+count, len(used)); i++ {
		used[i] = true
	}
}

// subnet is the range with the given number in cluster.
func subnet(cluster netip.Prefix, bits, number int) netip.Prefix {
	bytes := cluster.Addr().AsSlice()
	for bit := bits - 1; number > 0; bit-- {
		bytes[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, bits)
}

// number is the number of the range in cluster that addr falls in.
func number(cluster netip.Prefix, bits int, addr netip.Addr) (n int) {
	bytes := addr.AsSlice()
	for bit := cluster.Bits(); bit < bits; bit++ {
		n = n<<1 | int(bytes[bit/8]>>(7-bit%8)&1)
	}
	return n
}
