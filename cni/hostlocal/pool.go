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
type pool struct{ dir string }

func (p pool) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := cni.FileLock(ctx, filepath.Join(p.dir, "lock"))
	if errors.Is(err, context.DeadlineExceeded) {
		return cni.Errorf(cni.CodeTryAgain, "%v", err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

func (p pool) path(addr netip.Addr) string { return filepath.Join(p.dir, addr.String()) }

// allocate allocates an address of set number n: the first address of wanted in the set, or else
// the next free one. It returns the rest of wanted.
func (p pool) allocate(n int, s set, owner cni.Attachment, wanted []netip.Addr) (cni.IP, []netip.Addr, error) {
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
func (p pool) take(addr netip.Addr, owner cni.Attachment) (bool, error) {
	f, err := os.OpenFile(p.path(addr), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(content(owner))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errors.Join(err, os.Remove(f.Name()))
	}
	return true, nil
}

// content returns the same bytes that the reference plugin writes.
func content(owner cni.Attachment) string { return owner.ContainerID + "\r\n" + owner.IfName }

// each calls f for every allocated address. The owner is zero if the file is empty.
func (p pool) each(f func(netip.Addr, cni.Attachment) error) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		addr, err := netip.ParseAddr(e.Name())
		if err != nil {
			continue // lock, last_reserved_ip
		}
		data, err := os.ReadFile(p.path(addr))
		if err != nil {
			return err
		}
		id, ifName, _ := strings.Cut(strings.TrimSpace(string(data)), "\r\n")
		if err := f(addr, cni.Attachment{ContainerID: id, IfName: ifName}); err != nil {
			return err
		}
	}
	return nil
}

// held returns the addresses of owner.
func (p pool) held(owner cni.Attachment) ([]netip.Addr, error) {
	var all []netip.Addr
	return all, p.each(func(addr netip.Addr, a cni.Attachment) error {
		if a == owner {
			all = append(all, addr)
		}
		return nil
	})
}

// release frees the addresses of owner.
func (p pool) release(owner cni.Attachment) error {
	return p.each(func(addr netip.Addr, a cni.Attachment) error {
		if a == owner {
			return os.Remove(p.path(addr))
		}
		return nil
	})
}

// keep frees the addresses without an owner in valid.
func (p pool) keep(valid []cni.Attachment) error {
	return p.each(func(addr netip.Addr, a cni.Attachment) error {
		if slices.Contains(valid, a) {
			return nil
		}
		return os.Remove(p.path(addr))
	})
}

// free reports whether s has a free address.
func (p pool) free(s set) (bool, error) {
	taken := make(map[netip.Addr]bool)
	err := p.each(func(addr netip.Addr, _ cni.Attachment) error {
		taken[addr] = true
		return nil
	})
	if err != nil {
		return false, err
	}
	first := s[0].Start
	for addr := first; ; {
		if _, ok := s.usable(addr); ok && !taken[addr] {
			return true, nil
		}
		if addr = s.after(addr); addr == first {
			return false, nil
		}
	}
}

func (p pool) lastPath(n int) string {
	return filepath.Join(p.dir, "last_reserved_ip."+strconv.Itoa(n))
}

// last returns the last allocated address of set number n. If the file is missing or incomplete,
// the search begins at the start.
func (p pool) last(n int) netip.Addr {
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

func (p pool) setLast(n int, addr netip.Addr) error {
	if err := os.WriteFile(p.lastPath(n), []byte(addr.String()), 0o644); err != nil {
		return fmt.Errorf("remember the last address: %w", err)
	}
	return nil
}
