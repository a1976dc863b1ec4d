package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The format of bbolt's pages: a header, then elements, then their data. Numbers are in the
// machine's byte order, which is little-endian on all supported machines.
const (
	pageHeader    = 16 // id uint64, flags uint16, count uint16, overflow uint32
	leafElement   = 16 // flags uint32, position uint32, key size uint32, value size uint32
	branchElement = 16 // position uint32, key size uint32, page uint64
	bucketHeader  = 16 // root page uint64, sequence uint64
	metaSize      = 64 // magic, version, page size, flags uint32; root bucket; free list, high water, txid, sum uint64

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04

	bucketFlag = 0x01
	boltMagic  = 0xED0CDAED

	// deepest bounds the recursion. A tree of 8 GiB has six levels.
	deepest = 64
)

// A pageChecker walks the pages of a bbolt database with plain reads before bbolt opens it. bbolt
// maps the file into memory and panics, in its own goroutines, on an invalid page; a missing part
// of the file ends the process.
type pageChecker struct {
	file     io.ReaderAt
	size     int64
	pageSize int64
	pages    uint64 // number of pages in use
	seen     []bool // by page
}

// checkPages returns an error if bbolt cannot handle the file at path. It reads all pages in use.
// It does not detect damaged values, because the format has no checksums for them.
func checkPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	c := &pageChecker{file: f, size: info.Size()}
	root, err := c.meta()
	if err != nil {
		return err
	}
	return c.tree(root, 0)
}

// meta reads the two meta pages and returns the root of the newer valid one.
func (c *pageChecker) meta() (root uint64, err error) {
	var newest uint64
	found := false
	// The second meta page follows the first, at an offset of one page size.
	for _, at := range []int64{0, 4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		page := make([]byte, pageHeader+metaSize)
		if _, err := c.file.ReadAt(page, at); err != nil {
			break
		}
		m := page[pageHeader:]
		pageSize := int64(binary.LittleEndian.Uint32(m[8:]))
		if binary.LittleEndian.Uint16(page[8:])&metaPage == 0 || binary.LittleEndian.Uint32(m) != boltMagic || at != 0 && at != pageSize {
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		txid := binary.LittleEndian.Uint64(m[48:])
		if sum.Sum64() != binary.LittleEndian.Uint64(m[56:]) || pageSize < 512 || found && txid < newest {
			continue
		}
		found, newest, c.pageSize = true, txid, pageSize
		root, c.pages = binary.LittleEndian.Uint64(m[16:]), binary.LittleEndian.Uint64(m[40:])
	}
	if !found {
		return 0, errors.New("neither of its meta pages is sound")
	}
	if int64(c.pages) > c.size/c.pageSize {
		return 0, fmt.Errorf("it has %d bytes, where its pages take %d", c.size, int64(c.pages)*c.pageSize)
	}
	c.seen = make([]bool, c.pages)
	return root, nil
}

// tree checks the page id and all pages below it.
func (c *pageChecker) tree(id uint64, depth int) error {
	switch {
	case depth > deepest:
		return fmt.Errorf("page %d: the tree is too deep", id)
	case id < 2 || id >= c.pages:
		return fmt.Errorf("page %d: there is no such page", id)
	case c.seen[id]:
		return fmt.Errorf("page %d: it is used twice", id)
	}
	header := make([]byte, pageHeader)
	if _, err := c.file.ReadAt(header, int64(id)*c.pageSize); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if said := binary.LittleEndian.Uint64(header); said != id {
		return fmt.Errorf("page %d: it says that it is page %d", id, said)
	}
	more := uint64(binary.LittleEndian.Uint32(header[12:]))
	if id+more >= c.pages {
		return fmt.Errorf("page %d: it ends behind the last page", id)
	}
	for i := id; i <= id+more; i++ {
		if c.seen[i] {
			return fmt.Errorf("page %d: it is used twice", i)
		}
		c.seen[i] = true
	}
	page := make([]byte, (1+int64(more))*c.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.pageSize); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if err := c.elements(page, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements checks the elements of a page, which may be inline in a bucket's value.
func (c *pageChecker) elements(page []byte, depth int) error {
	if len(page) < pageHeader {
		return errors.New("it is too short")
	}
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return fmt.Errorf("it is of no known kind: %#x", flags)
	}
	if flags == branchPage && count == 0 {
		return errors.New("it is a branch without pages below it")
	}
	if pageHeader+count*leafElement > len(page) {
		return fmt.Errorf("it has no room for its %d elements", count)
	}
	var previous []byte
	for i := range count {
		at := pageHeader + i*leafElement
		key, err := c.element(page, at, flags, depth)
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(previous, key) >= 0 {
			return errors.New("its keys are not in order")
		}
		previous = key
	}
	return nil
}

// element checks the element at an offset and returns its key.
func (c *pageChecker) element(page []byte, at int, kind uint16, depth int) (key []byte, err error) {
	field := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(page[at+4*i:])) }
	if kind == branchPage {
		from := uint64(at) + field(0)
		if from+field(1) > uint64(len(page)) {
			return nil, errors.New("a key ends behind it")
		}
		return page[from : from+field(1)], c.tree(binary.LittleEndian.Uint64(page[at+8:]), depth+1)
	}
	from := uint64(at) + field(1)
	middle, end := from+field(2), from+field(2)+field(3)
	if end > uint64(len(page)) {
		return nil, errors.New("a value ends behind it")
	}
	if field(0)&bucketFlag == 0 {
		return page[from:middle], nil
	}
	return page[from:middle], c.bucket(page[middle:end], depth)
}

// bucket checks the bucket in a value.
func (c *pageChecker) bucket(value []byte, depth int) error {
	if len(value) < bucketHeader {
		return errors.New("a bucket is too short")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return c.tree(root, depth+1)
	}
	return c.elements(value[bucketHeader:], depth)
}
