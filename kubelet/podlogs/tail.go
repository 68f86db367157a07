package podlogs

import "os"

// tailBlock is the size of a read from the end of a log, in bytes.
const tailBlock = 64 << 10

// tailStart is the offset of the last lines of the file.
func tailStart(file *os.File, lines int64) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if lines == 0 {
		return info.Size(), nil
	}
	block := make([]byte, tailBlock)
	for end := info.Size(); end > 0; {
		start := max(0, end-tailBlock)
		part := block[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			// The newline at the very end belongs to the last line.
			if part[i] != '\n' || start+int64(i) == info.Size()-1 {
				continue
			}
			if lines--; lines == 0 {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return 0, nil
}
