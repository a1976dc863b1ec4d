package ruleset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// dumpAttempts bounds the repetitions of a listing that the kernel reports as inconsistent: other
// programs on the host change their tables.
const dumpAttempts = 50

// request sends a message about the table and returns the answers without their headers.
func (k *Kernel) request(ctx context.Context, message, flags int, attributes ...nl.NetlinkRequestData) ([][]byte, error) {
	for attempt := 1; ; attempt++ {
		r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, flags)
		r.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(k.table.Family), Version: nl.NFNETLINK_V0})
		for _, a := range attributes {
			r.AddData(a)
		}
		out, err := r.Execute(unix.NETLINK_NETFILTER, 0)
		if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, m := range out {
			if len(m) < nl.SizeofNfgenmsg {
				return nil, fmt.Errorf("a message of %d bytes", len(m))
			}
			out[i] = m[nl.SizeofNfgenmsg:]
		}
		return out, nil
	}
}

// attributes calls f for each attribute of a message, and stops at one that is torn.
func attributes(message []byte, f func(kind uint16, value []byte)) {
	for len(message) >= 4 {
		size := int(binary.NativeEndian.Uint16(message))
		if size < 4 || size > len(message) {
			return
		}
		f(binary.NativeEndian.Uint16(message[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), message[4:size])
		message = message[min(len(message), (size+3)&^3):]
	}
}

func text(value []byte) string { return strings.TrimRight(string(value), "\x00") }

// Generation returns a number that every change of any table in the namespace increases by one, and
// that wraps.
func (k *Kernel) Generation(ctx context.Context) (uint32, error) {
	out, err := k.request(ctx, unix.NFT_MSG_GETGEN, 0)
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	var id uint32
	for _, m := range out {
		attributes(m, func(kind uint16, value []byte) {
			if kind == unix.NFTA_GEN_ID && len(value) == 4 {
				id = binary.BigEndian.Uint32(value)
			}
		})
	}
	return id, nil
}

// Read returns the table as the kernel has it, for a comparison with want: rules are only good to be
// compared. It returns an error that is ErrOwned if the table has another owner, and one that is
// ErrDamaged if the table cannot be changed into want.
func (k *Kernel) Read(ctx context.Context, want Table) (Table, error) {
	have := Table{Chains: map[string]Chain{}, Sets: map[string]Set{}, Elements: map[Place]Verdict{}}
	_, err := k.request(ctx, unix.NFT_MSG_GETTABLE, 0, nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(k.table.Name)))
	if errors.Is(err, unix.ENOENT) {
		clear(k.retired)
		return have, nil
	}
	if err == nil {
		err = k.readChains(ctx, have, want)
	}
	if err == nil {
		err = k.readRules(ctx, have)
	}
	if err == nil {
		err = k.readSets(ctx, have, want)
	}
	for _, name := range slices.Sorted(maps.Keys(have.Sets)) {
		if err == nil && !have.Sets[name].Kind.filled() {
			err = k.readElements(ctx, name, have)
		}
	}
	if err != nil {
		return Table{}, fmt.Errorf("read nftables table %s: %w", k.table.Name, err)
	}
	for name := range k.retired {
		if c, ok := have.Chains[name]; ok && len(c.Rules) == 0 {
			delete(have.Chains, name)
		} else if !ok {
			delete(k.retired, name)
		}
	}
	return have, nil
}

func (k *Kernel) readChains(ctx context.Context, have, want Table) error {
	out, err := k.request(ctx, unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	if err != nil {
		return err
	}
	for _, m := range out {
		var table, name string
		var hook *Hook
		attributes(m, func(kind uint16, value []byte) {
			switch kind {
			case unix.NFTA_CHAIN_TABLE:
				table = text(value)
			case unix.NFTA_CHAIN_NAME:
				name = text(value)
			case unix.NFTA_CHAIN_HOOK:
				hook = readHook(value, hook)
			case unix.NFTA_CHAIN_TYPE:
				if hook == nil {
					hook = &Hook{}
				}
				hook.Translates = text(value) == "nat"
			}
		})
		if table != k.table.Name {
			continue
		}
		if owner, ok := strings.CutPrefix(name, ownerPrefix); ok {
			if owner != k.owner {
				return &OwnedError{Table: table, Owner: owner}
			}
			continue
		}
		if w, ok := want.Chains[name]; ok && ((w.Hook == nil) != (hook == nil) || hook != nil && *w.Hook != *hook) {
			return fmt.Errorf("chain %s is at another place: %w", name, ErrDamaged)
		}
		have.Chains[name] = Chain{Hook: hook}
	}
	return nil
}

func readHook(nested []byte, hook *Hook) *Hook {
	if hook == nil {
		hook = &Hook{}
	}
	attributes(nested, func(kind uint16, value []byte) {
		if len(value) != 4 {
			return
		}
		number := binary.BigEndian.Uint32(value)
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			for point, h := range hooks {
				if uint32(*h) == number {
					hook.Point = point
				}
			}
		case unix.NFTA_HOOK_PRIORITY:
			hook.Priority = int32(number)
		}
	})
	return hook
}

func (k *Kernel) readRules(ctx context.Context, have Table) error {
	out, err := k.request(ctx, unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(k.table.Name)))
	if err != nil {
		return err
	}
	for _, m := range out {
		var table, name string
		r := Rule{id: "foreign"} // a rule without our comment
		attributes(m, func(kind uint16, value []byte) {
			switch kind {
			case unix.NFTA_RULE_TABLE:
				table = text(value)
			case unix.NFTA_RULE_CHAIN:
				name = text(value)
			case unix.NFTA_RULE_USERDATA:
				if comment, ok := userdata.GetString(value, userdata.TypeComment); ok {
					r.id = comment
				}
			}
		})
		if chain, ok := have.Chains[name]; ok && table == k.table.Name {
			chain.Rules = append(chain.Rules, r)
			have.Chains[name] = chain
		}
	}
	return nil
}

func (k *Kernel) readSets(ctx context.Context, have, want Table) error {
	out, err := k.request(ctx, unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, nl.NewRtAttr(unix.NFTA_SET_TABLE, nl.ZeroTerminated(k.table.Name)))
	if err != nil {
		return err
	}
	for _, m := range out {
		var table, name string
		var flags, keyType, dataType uint32
		attributes(m, func(kind uint16, value []byte) {
			switch {
			case kind == unix.NFTA_SET_TABLE:
				table = text(value)
			case kind == unix.NFTA_SET_NAME:
				name = text(value)
			case len(value) != 4:
			case kind == unix.NFTA_SET_FLAGS:
				flags = binary.BigEndian.Uint32(value)
			case kind == unix.NFTA_SET_KEY_TYPE:
				keyType = binary.BigEndian.Uint32(value)
			case kind == unix.NFTA_SET_DATA_TYPE:
				dataType = binary.BigEndian.Uint32(value)
			}
		})
		if table != k.table.Name || flags&unix.NFT_SET_ANONYMOUS != 0 {
			continue
		}
		w, ok := want.Sets[name]
		if ok && !sameType(w, flags, keyType, dataType) {
			return fmt.Errorf("set %s has another type: %w", name, ErrDamaged)
		}
		have.Sets[name] = w
		if !ok {
			have.Sets[name] = Set{Kind: Affinity} // whose elements do not matter: it is deleted
		}
	}
	return nil
}

func sameType(s Set, flags, keyType, dataType uint32) bool {
	wanted := s.encode(nil, "")
	data := wanted.DataType.GetNFTMagic()
	if s.Kind == Verdicts {
		data = unix.NFT_DATA_VERDICT
	}
	return keyType == wanted.KeyType.GetNFTMagic() && dataType == data && wanted.HasTimeout == (flags&unix.NFT_SET_TIMEOUT != 0) &&
		wanted.Interval == (flags&unix.NFT_SET_INTERVAL != 0)
}

func (k *Kernel) readElements(ctx context.Context, name string, have Table) error {
	out, err := k.request(ctx, unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP,
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(k.table.Name)),
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(name)))
	if err != nil {
		return err
	}
	for _, m := range out {
		attributes(m, func(kind uint16, list []byte) {
			if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return
			}
			attributes(list, func(_ uint16, element []byte) {
				key, v := readElement(element)
				have.Elements[Place{name, key}] = v
			})
		})
	}
	return nil
}

func readElement(element []byte) (key Key, v Verdict) {
	after := false
	attributes(element, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_FLAGS:
			after = len(value) == 4 && binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_KEY:
			attributes(value, func(kind uint16, data []byte) {
				if kind == unix.NFTA_DATA_VALUE {
					key = Key(data)
				}
			})
		case unix.NFTA_SET_ELEM_DATA:
			attributes(value, func(kind uint16, data []byte) {
				switch kind {
				case unix.NFTA_DATA_VERDICT:
					v = readVerdict(data)
				case unix.NFTA_DATA_VALUE:
					v = readEndpoint(data)
				}
			})
		}
	})
	if after {
		key += afterRange
	}
	return key, v
}

// readEndpoint reads an address, a port and two bytes.
func readEndpoint(data []byte) Verdict {
	size := len(data) - 4
	if size < 0 {
		return Verdict(fmt.Sprintf("data %x", data))
	}
	a, ok := netip.AddrFromSlice(data[:size])
	if !ok {
		return Verdict(fmt.Sprintf("data %x", data))
	}
	return VerdictEndpoint(netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[size:])))
}

func readVerdict(data []byte) Verdict {
	var code int32
	var chain string
	attributes(data, func(kind uint16, value []byte) {
		switch {
		case kind == unix.NFTA_VERDICT_CODE && len(value) == 4:
			code = int32(binary.BigEndian.Uint32(value))
		case kind == unix.NFTA_VERDICT_CHAIN:
			chain = text(value)
		}
	})
	switch code {
	case unix.NFT_GOTO:
		return VerdictGoto(chain)
	case unix.NFT_JUMP:
		return VerdictJump(chain)
	case 0: // NF_DROP
		return VerdictDrop
	}
	return Verdict(fmt.Sprintf("verdict %d %s", code, chain))
}
