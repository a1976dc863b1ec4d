package hostlocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/cni"
)

// pool is the directory of one network. The caller of its methods, except locked, holds the lock.
type pool struct {
	dir string
	// indexFrom is the number of addresses from which an index is kept.
	indexFrom int
	// step is called after each change of the disk; a test ends the call there as a kill would. Nil
	// does nothing.
	step func()

	// owners are the allocated addresses.
	owners map[netip.Addr]cni.Attachment
	// changed means that owners differs from the index.
	changed bool
}

// locked runs f while no other process uses the network. The reference plugin takes the same lock,
// and does not notice when its file is removed.
func (p *pool) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := cni.PersistentFileLock(ctx, filepath.Join(p.dir, "lock"))
	if errors.Is(err, context.DeadlineExceeded) {
		return cni.Errorf(cni.CodeTryAgain, "%v", err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.load(); err != nil {
		return err
	}
	err = f()
	if p.changed && len(p.owners) >= p.indexFrom {
		p.saveIndex()
	}
	return err
}

func (p *pool) stepped() {
	if p.step != nil {
		p.step()
	}
}

func (p *pool) path(addr netip.Addr) string { return filepath.Join(p.dir, addr.String()) }

// load reads who has which address.
func (p *pool) load() error {
	if p.owners, p.changed = p.loadIndex(), false; p.owners != nil {
		return nil
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	p.owners, p.changed = make(map[netip.Addr]cni.Attachment, len(entries)), true
	for _, e := range entries {
		addr, err := netip.ParseAddr(e.Name())
		if err != nil {
			continue // lock, last_reserved_ip
		}
		data, err := os.ReadFile(p.path(addr))
		if err != nil {
			return err
		}
		if len(data) == 0 { // left by a call that was killed: a writer holds the lock
			if err := os.Remove(p.path(addr)); err != nil {
				return err
			}
			continue
		}
		p.owners[addr] = parseOwner(string(data))
	}
	return nil
}

// parseOwner reads the content of an address's file.
func parseOwner(data string) cni.Attachment {
	id, ifName, _ := strings.Cut(strings.TrimSpace(data), "\r\n")
	return cni.Attachment{ContainerID: id, IfName: ifName}
}

// content returns the same bytes that the reference plugin writes.
func content(owner cni.Attachment) string { return owner.ContainerID + "\r\n" + owner.IfName }

// owns reports whether an address's file is owner's. Old versions of the reference plugin wrote no
// interface.
func owns(owner, file cni.Attachment) bool {
	return file == owner || file.IfName == "" && file.ContainerID == owner.ContainerID && file.ContainerID != ""
}

// allocate allocates an address of set number n: the first address of wanted in the set, or else
// the next free one. It returns the rest of wanted.
func (p *pool) allocate(n int, s set, owner cni.Attachment, wanted []netip.Addr) (cni.IP, []netip.Addr, error) {
	for i, addr := range wanted {
		if r, ok := s.usable(addr); ok {
			taken, err := p.take(addr, owner)
			if err == nil && !taken {
				err = cni.Errorf(cni.CodePlugin, "address %v is taken", addr)
			}
			return ip(addr, r), slices.Delete(slices.Clone(wanted), i, i+1), err
		}
	}
	first := s.after(p.last(n))
	for addr := first; ; {
		if r, ok := s.usable(addr); ok {
			taken, err := p.take(addr, owner)
			if err == nil && taken {
				err = p.setLast(n, addr)
			}
			if err != nil || taken {
				return ip(addr, r), wanted, err
			}
		}
		if addr = s.after(addr); addr == first {
			return cni.IP{}, wanted, cni.Errorf(cni.CodePlugin, "no address is free in %v", s)
		}
	}
}

func ip(addr netip.Addr, r Range) cni.IP {
	return cni.IP{Address: netip.PrefixFrom(addr, r.Subnet.Bits()), Gateway: r.Gateway}
}

// take allocates addr unless it has an owner.
func (p *pool) take(addr netip.Addr, owner cni.Attachment) (bool, error) {
	if _, taken := p.owners[addr]; taken {
		return false, nil
	}
	f, err := os.OpenFile(p.path(addr), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	p.stepped()
	_, err = f.WriteString(content(owner))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errors.Join(err, os.Remove(f.Name()))
	}
	p.owners[addr], p.changed = owner, true
	p.stepped()
	return true, nil
}

// held returns the addresses of owner.
func (p *pool) held(owner cni.Attachment) []netip.Addr {
	var all []netip.Addr
	for addr, a := range p.owners {
		if owns(owner, a) {
			all = append(all, addr)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// free frees an address.
func (p *pool) free(addr netip.Addr) error {
	if err := os.Remove(p.path(addr)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(p.owners, addr)
	p.changed = true
	p.stepped()
	return nil
}

// release frees the addresses of owner.
func (p *pool) release(owner cni.Attachment) error {
	for _, addr := range p.held(owner) {
		if err := p.free(addr); err != nil {
			return err
		}
	}
	return nil
}

// keep frees the addresses without an owner in valid.
func (p *pool) keep(valid []cni.Attachment) error {
	good := make(map[cni.Attachment]bool, 2*len(valid))
	for _, a := range valid {
		good[a], good[cni.Attachment{ContainerID: a.ContainerID}] = true, true
	}
	for addr, a := range p.owners {
		if good[a] {
			continue
		}
		if err := p.free(addr); err != nil {
			return err
		}
	}
	return nil
}

// hasFree reports whether s has a free address.
func (p *pool) hasFree(s set) bool {
	first := s[0].Start
	for addr := first; ; {
		if _, ok := s.usable(addr); ok {
			if _, taken := p.owners[addr]; !taken {
				return true
			}
		}
		if addr = s.after(addr); addr == first {
			return false
		}
	}
}

func (p *pool) lastPath(n int) string {
	return filepath.Join(p.dir, "last_reserved_ip."+strconv.Itoa(n))
}

// last returns the last allocated address of set number n. If the file is missing or incomplete,
// the search begins at the start.
func (p *pool) last(n int) netip.Addr {
	data, err := os.ReadFile(p.lastPath(n))
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(string(data)))
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

func (p *pool) setLast(n int, addr netip.Addr) error {
	// By a rename, so that a call that is killed does not let the search begin at the start.
	temporary := p.lastPath(n) + ".new"
	err := os.WriteFile(temporary, []byte(addr.String()), 0o644)
	if p.stepped(); err == nil {
		err = os.Rename(temporary, p.lastPath(n))
	}
	if err != nil {
		return fmt.Errorf("remember the last address: %w", err)
	}
	p.stepped()
	return nil
}
