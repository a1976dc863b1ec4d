//go:build linux

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/planekit/planekit/cni"
)

// The iptables command of each family.
const (
	v4 = "iptables"
	v6 = "ip6tables"
)

// rule is one iptables rule of a bridge. Its comment identifies it completely, so that rules can be
// compared without parsing them.
type rule struct {
	table, chain string
	match        []string
	target       string
	comment      string
}

// rules creates the bridge's rules. The caller holds the lock.
func (c *Conf) rules(ctx context.Context, ips []cni.IP) error {
	for _, ip := range ips {
		command := v4
		if !ip.Address.Addr().Is4() {
			command = v6
		}
		if err := c.masquerade(ctx, command, ip.Address); err != nil {
			return err
		}
		if err := c.accept(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conf) masquerade(ctx context.Context, command string, address netip.Prefix) error {
	if !c.IPMasq {
		return nil
	}
	subnet := address.Masked()
	cluster := c.ClusterCIDR.of(subnet.Addr(), subnet)
	want := rule{
		table: "nat", chain: "POSTROUTING",
		match:   []string{"-s", subnet.String(), "!", "-d", cluster.String()},
		target:  "MASQUERADE",
		comment: fmt.Sprintf("%s%v:%v", prefix(c.Bridge), subnet, cluster),
	}
	have, err := list(ctx, command, "nat", "POSTROUTING")
	if err != nil {
		return fmt.Errorf("ipMasq: %w", err)
	}
	return want.ensure(ctx, command, have)
}

// accept accepts the bridge's traffic on a host that drops by default.
func (c *Conf) accept(ctx context.Context, command string) error {
	have, err := list(ctx, command, "filter", "FORWARD")
	if errors.Is(err, exec.ErrNotFound) {
		return nil // iptables does not filter
	}
	if err != nil {
		return err
	}
	if len(have) == 0 || have[0] != "-P FORWARD DROP" {
		return nil
	}
	vlan := ""
	if c.VLAN != 0 {
		vlan = fmt.Sprintf("-vlan%d", c.VLAN)
	}
	for _, flag := range []string{"-i", "-o"} {
		want := rule{
			table: "filter", chain: "FORWARD",
			match: []string{flag, c.gatewayLink()}, target: "ACCEPT",
			comment: prefix(c.Bridge) + "forward" + flag + vlan,
		}
		if err := want.ensure(ctx, command, have); err != nil {
			return err
		}
	}
	return nil
}

// prefix returns the prefix of the comments of a bridge's rules.
func prefix(bridge string) string { return "planekit:" + bridge + ":" }

// ensure adds the rule unless have contains it.
func (r rule) ensure(ctx context.Context, command string, have []string) error {
	for _, line := range have {
		if comment(line) == r.comment {
			return nil
		}
	}
	args := append([]string{"-t", r.table, "-A", r.chain}, r.match...)
	args = append(args, "-m", "comment", "--comment", r.comment, "-j", r.target)
	_, err := iptables(ctx, command, args...)
	return err
}

// removeRules removes the rules of both families. Without iptables there are none.
func removeRules(ctx context.Context, bridge string) error {
	var failed []error
	for _, command := range []string{v4, v6} {
		for table, chain := range map[string]string{"nat": "POSTROUTING", "filter": "FORWARD"} {
			have, err := list(ctx, command, table, chain)
			if errors.Is(err, exec.ErrNotFound) {
				break
			}
			failed = append(failed, err)
			for _, line := range have {
				if strings.HasPrefix(comment(line), prefix(bridge)) {
					args := append([]string{"-t", table, "-D"}, words(line)[1:]...)
					_, err := iptables(ctx, command, args...)
					failed = append(failed, err)
				}
			}
		}
	}
	return errors.Join(failed...)
}

// words splits a line of iptables -S. The words of these rules contain no spaces.
func words(line string) []string {
	all := strings.Fields(line)
	for i, w := range all {
		all[i] = strings.Trim(w, `"`)
	}
	return all
}

// comment returns the comment of a rule in the output of iptables -S.
func comment(line string) string {
	all := words(line)
	for i, w := range all[:max(0, len(all)-1)] {
		if w == "--comment" {
			return all[i+1]
		}
	}
	return ""
}

// list returns the policy and the rules of a chain.
func list(ctx context.Context, command, table, chain string) ([]string, error) {
	out, err := iptables(ctx, command, "-t", table, "-S", chain)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\n"), nil
}

// iptablesPath also finds a command for runtimes whose PATH lacks the system directories.
func iptablesPath(command string) (string, error) {
	path, err := exec.LookPath(command)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, command))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, exec.ErrNotFound)
	}
	return path, nil
}

func iptables(ctx context.Context, command string, args ...string) (string, error) {
	path, err := iptablesPath(command)
	if err != nil {
		return "", err
	}
	// -w waits up to 5 s for other processes that change the tables.
	cmd := exec.CommandContext(ctx, path, append([]string{"-w", "5"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
