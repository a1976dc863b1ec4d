package hostlocal

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/planekit/planekit/cni"
)

// indexFrom is the number of addresses from which a network has an index. Reading fewer files costs
// less than writing it.
const indexFrom = 256

// The index of a large network is one file with the owners of all addresses, so that a call need not
// read thousands of files. The files of the addresses decide: the index is only believed while the
// directory is as it was left. Every file that is created or removed, by the reference plugin, by an
// administrator or by a call that was killed, changes the directory's modification time, and a call
// that ends orderly sets it to a time that the clock would not show: the index begins with it.

func (p *pool) indexPath() string { return filepath.Join(p.dir, "owners") }

// loadIndex returns nil if there is no index, or if it is not up to date.
func (p *pool) loadIndex() map[netip.Addr]cni.Attachment {
	data, err := os.ReadFile(p.indexPath())
	if err != nil {
		return nil
	}
	info, err := os.Stat(p.dir)
	if err != nil {
		return nil
	}
	stamp, owners := parseIndex(string(data))
	if stamp != info.ModTime().UnixNano() {
		return nil
	}
	return owners
}

// parseIndex returns no owners if data is not a complete index.
func parseIndex(data string) (stamp int64, owners map[netip.Addr]cni.Attachment) {
	first, rest, ok := strings.Cut(data, "\n")
	if !ok || !strings.HasSuffix(data, "\n") {
		return 0, nil
	}
	stamp, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, nil
	}
	owners = map[netip.Addr]cni.Attachment{}
	for line := range strings.Lines(rest) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(words) != 3 {
			return 0, nil
		}
		addr, err := netip.ParseAddr(words[0])
		if err != nil {
			return 0, nil
		}
		owners[addr] = cni.Attachment{ContainerID: words[1], IfName: words[2]}
	}
	return stamp, owners
}

// formatIndex returns false if an owner cannot be written, as one that another program made up.
func formatIndex(stamp int64, owners map[netip.Addr]cni.Attachment) (string, bool) {
	var b strings.Builder
	fmt.Fprintln(&b, stamp)
	for addr, a := range owners {
		if strings.ContainsAny(a.ContainerID+a.IfName, " \n") {
			return "", false
		}
		b.WriteString(addr.String() + " " + a.ContainerID + " " + a.IfName + "\n")
	}
	return b.String(), true
}

// saveIndex does not fail: without an index, the next call reads the files.
func (p *pool) saveIndex() {
	// The nanoseconds are random, so that no later change of the directory has this time.
	stamp := time.Unix(time.Now().Unix(), rand.Int64N(1e9))
	data, ok := formatIndex(stamp.UnixNano(), p.owners)
	if !ok {
		return
	}
	name := p.indexPath() + ".new"
	if os.WriteFile(name, []byte(data), 0o644) != nil {
		return
	}
	p.stepped()
	if os.Rename(name, p.indexPath()) != nil {
		return
	}
	p.stepped()
	_ = os.Chtimes(p.dir, stamp, stamp)
	p.stepped()
}
