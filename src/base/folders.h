// mkdir -p.
#ifndef SOUNDER_BASE_FOLDERS_H
#define SOUNDER_BASE_FOLDERS_H

enum { FOLDER_PATH_BYTES = 4096 };

// Makes the folder and those above it, unless they exist. path: shorter than FOLDER_PATH_BYTES. -1 with errno set when
// a part of the path cannot be made, otherwise 0.
int make_folders(const char *path);

#endif
